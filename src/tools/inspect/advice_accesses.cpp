// SPDX-License-Identifier: Apache-2.0
//
// Advice on shared and global memory: bank conflicts and layouts without them, sectors that are moved
// unnecessarily, accesses that fail on a GPU.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "format/format.h"
#include "inspect/advice.h"
#include "inspect/recorded_variant.h"
#include "inspect/text_format.h"

namespace kiln {
namespace {

using Weight = Advice::Weight;

constexpr double kManySectors = 1.5;      // times the ideal
constexpr double kShareOfSectors = 0.05;  // of all wavefronts; lines below this fraction are ignored
constexpr std::size_t kMostLines = 3;

/// The conflicts of one line.
struct Conflict {
    int line = 0;
    int degree = 0;
    double excess = 0;  ///< wavefronts of the blocks recorded
};

std::vector<Conflict> conflicts_of(const Analysis& analysis) {
    std::map<int, Conflict> by_line;
    for (const SharedLine& shared : analysis.shared) {
        const WidthCost& cost = shared.believed;
        if (cost.wavefronts <= cost.ideal) continue;
        Conflict& conflict = by_line[shared.site.place.line];
        conflict.line = shared.site.place.line;
        conflict.degree = std::max(conflict.degree, cost.degree);
        conflict.excess += static_cast<double>(cost.wavefronts - cost.ideal);
    }
    std::vector<Conflict> conflicts;
    for (const auto& [line, conflict] : by_line) conflicts.push_back(conflict);
    std::ranges::stable_sort(conflicts, std::ranges::greater{}, &Conflict::excess);
    return conflicts;
}

/// "the 3-way conflict of line 41", "the conflicts of lines 41 (3-way) and 57 (2-way)". A degree of 1 is not
/// a bank conflict: an asynchronous copy also needs wavefronts for what it reads.
std::string conflicts_text(const std::vector<Conflict>& conflicts) {
    const auto way = [](const Conflict& conflict) {
        return conflict.degree > 1 ? formatted("{}-way", conflict.degree) : std::string("asynchronous copy");
    };
    if (conflicts.size() == 1)
        return conflicts[0].degree > 1
                   ? formatted("the {}-way conflict of line {}", conflicts[0].degree, conflicts[0].line)
                   : formatted("the asynchronous copy of line {}", conflicts[0].line);
    const std::size_t shown = std::min(kMostLines, conflicts.size());
    std::string text = "the conflicts of lines";
    for (std::size_t i = 0; i < shown; ++i)
        text += formatted("{}{} ({})",
                          i == 0                                        ? " "
                          : i + 1 == shown && shown == conflicts.size() ? " and "
                                                                        : ", ",
                          conflicts[i].line, way(conflicts[i]));
    if (shown < conflicts.size()) text += " and others";
    return text;
}

std::string cost_text(std::int64_t bytes) {
    if (bytes == 0) return "costs no shared memory";
    return (bytes > 0 ? "costs " : "saves ") +
           counted(static_cast<std::uint64_t>(std::llabs(bytes)), "byte", "bytes");
}

/// "; blocks per SM stay at 8"
std::string blocks_text(const AdviceContext& context, const std::optional<Occupancy>& then) {
    if (!context.analysis.occupancy || !then) return {};
    const int now = context.analysis.occupancy->blocks;
    const std::string blocks =
        "; blocks per " + std::string(multiprocessor_word(context.target.backend)) + " ";
    if (then->blocks == now) return formatted("{}stay at {}", blocks, now);
    return formatted("{}{} from {} to {}", blocks, then->blocks > now ? "rise" : "fall", now, then->blocks);
}

void advise_on_banks(const AdviceContext& context, std::vector<Advice>& out) {
    const Analysis& analysis = context.analysis;
    if (analysis.excess() <= kExcessWorthTelling) return;
    const std::vector<Conflict> conflicts = conflicts_of(analysis);
    const std::string now = percent(analysis.excess()) + " more wavefronts in shared memory than ideal";
    const bool in_banks = std::ranges::any_of(conflicts, [](const Conflict& one) { return one.degree > 1; });
    if (!in_banks) {
        std::string text = conflicts_text(conflicts);
        text[0] = 'T';
        out.push_back(
            {Weight::hint,
             text + (conflicts.size() == 1 ? " takes " : " take ") + now + ", though not by bank conflicts",
             {}});
        return;
    }
    if (!context.layout || !context.layout->best) {
        std::string text = conflicts_text(conflicts);
        text[0] = 'T';
        text += conflicts.size() == 1 ? " makes " : " make ";
        text += now;
        if (!context.layout)
            ;
        else if (context.layout->tried.empty())
            text += "; the template has no parameter for the layout of its tiles";
        else
            text += "; none of the layouts tried can be used here";
        out.push_back({Weight::warning, text, {}});
        return;
    }
    const LayoutFound& best = *context.layout->best;
    const std::string tail =
        " and " + cost_text(best.choice.shared_bytes_more) + blocks_text(context, best.occupancy);
    if (best.excess <= 0.001) {
        out.push_back(
            {Weight::warning,
             best.choice.change + " removes " + conflicts_text(conflicts) + tail + "; now there are " + now,
             best.choice.change});
        return;
    }
    if (best.excess < analysis.excess() / 2) {
        out.push_back({Weight::warning,
                       best.choice.change + " lowers the excess wavefronts in shared memory from " +
                           percent(analysis.excess()) + " to " + percent(best.excess) + tail +
                           "; most come from " + conflicts_text({conflicts.front()}),
                       best.choice.change});
        return;
    }
    std::string text = conflicts_text(conflicts);
    text[0] = 'T';
    out.push_back({Weight::warning,
                   text + (conflicts.size() == 1 ? " makes " : " make ") + now + "; " +
                       counted(context.layout->tried.size(), "other layout was", "other layouts were") +
                       " tried, and none has half of that",
                   {}});
}

void advise_on_misaligned(const AdviceContext& context, std::vector<Advice>& out) {
    std::vector<int> lines;
    if (const auto& recording = context.analysis.recording) {
        for (const SharedSite& site : recording->shared)
            if (site.misaligned != 0) lines.push_back(site.place.line);
        for (const GlobalSite& site : recording->global)
            if (site.misaligned != 0) lines.push_back(site.place.line);
    }
    if (lines.empty()) return;
    std::ranges::sort(lines);
    out.push_back({Weight::warning,
                   "addresses in " + lines_text(lines) +
                       " are not multiples of the access's width, so the kernel fails on a GPU",
                   {}});
}

void advise_on_problems(const AdviceContext& context, std::vector<Advice>& out) {
    if (!context.analysis.recording) return;
    std::size_t count = 0;
    const AccessProblem* first = nullptr;
    for (const AccessProblem& problem : context.analysis.recording->problems) {
        // Misaligned accesses have their own advice; uninitialised reads may be intended.
        if (problem.kind != ProblemKind::race && problem.kind != ProblemKind::out_of_bounds) continue;
        if (count++ == 0) first = &problem;
    }
    if (first == nullptr) return;
    out.push_back({Weight::warning,
                   first->text() + (count == 1 ? std::string() : formatted(" (and {} more)", count - 1)) +
                       ": 'kiln check' shows the source",
                   {}});
}

void advise_on_sectors(const AdviceContext& context, std::vector<Advice>& out) {
    double all = 0;
    for (const LineSectors& line : context.sectors) all += line.sectors;
    std::vector<LineSectors> lines;
    for (const LineSectors& line : context.sectors)
        if (line.sectors > kManySectors * line.ideal && line.sectors > kShareOfSectors * all)
            lines.push_back(line);
    std::ranges::stable_sort(lines, std::ranges::greater{}, &LineSectors::sectors);
    if (lines.size() > kMostLines) lines.resize(kMostLines);
    for (const LineSectors& line : lines)
        out.push_back(
            {Weight::warning,
             formatted("line {} touches {:.3g} times the sectors of global memory that its bytes would fill "
                       "contiguously; {} of all sectors are from this line",
                       line.line, line.sectors / std::max(line.ideal, 1.0), percent(line.sectors / all)),
             {}});
}

}  // namespace

void advise_on_memory_accesses(const AdviceContext& context, std::vector<Advice>& out) {
    advise_on_problems(context, out);
    advise_on_misaligned(context, out);
    advise_on_banks(context, out);
    advise_on_sectors(context, out);
    if (context.analysis.recording && !context.variant.origin().tensor_maps().empty())
        out.push_back(
            {Weight::hint,
             "copies by tensor maps (TMA) are not recorded, so the traffic of global memory is not known",
             {}});
}

}  // namespace kiln
