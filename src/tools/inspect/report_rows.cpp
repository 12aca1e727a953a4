// SPDX-License-Identifier: Apache-2.0
//
// The quantities, in the order in which a kernel engineer looks at them.
#include "inspect/report_rows.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/words.h"
#include "format/format.h"
#include "inspect/picture.h"
#include "inspect/report_text.h"
#include "inspect/text_format.h"

namespace kiln::inspect {
namespace {

using Number = std::optional<double>;

struct Quantity {
    const char* id;
    const char* name;
    const char* note;
    Better better;
    std::function<Figure(const ReportItem&)> figure;
};

struct QuantityGroup {
    const char* name;
    std::vector<Quantity> quantities;
};

Figure figure(const Number& value, const std::function<std::string(double)>& text) {
    return value ? Figure{value, text(*value), false} : Figure{};
}

Figure words(std::string text) { return {std::nullopt, std::move(text), false}; }

template <class T>
Number number(const std::optional<T>& value) {
    return value ? Number(static_cast<double>(*value)) : std::nullopt;
}

/// A numeric quantity of the analysis: how to get it, and how to format it.
template <class Find>
std::function<Figure(const ReportItem&)> of(Find find, std::function<std::string(double)> text) {
    return [=](const ReportItem& item) { return figure(find(item.analysis), text); };
}

/// The same for a quantity of a part of the analysis that may be missing.
template <class Part, class Find>
std::function<Figure(const ReportItem&)> of_part(std::optional<Part> Analysis::*part, Find find,
                                                 std::function<std::string(double)> text) {
    return [=](const ReportItem& item) {
        const std::optional<Part>& found = item.analysis.*part;
        return figure(found ? Number(static_cast<double>(find(*found))) : std::nullopt, text);
    };
}

std::string limits_text(const Occupancy& occupancy) {
    std::vector<std::string> names;
    for (const OccupancyLimit limit : occupancy.binding) names.emplace_back(name(limit));
    return enumerate(names);
}

Number shared_if_recorded(const Analysis& analysis, double value) {
    return analysis.recording && !analysis.shared.empty() ? Number(value) : std::nullopt;
}

/// A total that is of the shape asked about.
Number if_scaled(const Analysis& analysis, Number value) {
    return analysis.not_scaled.empty() ? value : std::nullopt;
}

Number global_if_recorded(const Analysis& analysis, double value) {
    return analysis.recording && !analysis.recording->global.empty() ? Number(value) : std::nullopt;
}

int worst_degree(const Analysis& analysis) {
    int degree = 0;
    for (const SharedLine& line : analysis.shared) degree = std::max(degree, line.believed.degree);
    return degree;
}

std::string excess_of(double value) { return excess_text(value); }

const std::vector<QuantityGroup>& quantities() {
    static const std::vector<QuantityGroup> kAll = {
        {"Launch",
         {{"sizes", "Problem", "", Better::neither,
           [](const ReportItem& item) { return words(sizes_text(item.analysis.problem.sizes)); }},
          {"grid", "Grid", "blocks", Better::neither,
           [](const ReportItem& item) {
               return item.analysis.grid.count() > 0 ? words(extents_text(item.analysis.grid)) : Figure{};
           }},
          {"block", "Block", "threads", Better::neither,
           [](const ReportItem& item) { return words(extents_text(item.analysis.block)); }},
          {"cluster", "Cluster", "blocks", Better::neither,
           [](const ReportItem& item) {
               return item.analysis.cluster.count() > 1 ? words(extents_text(item.analysis.cluster))
                                                        : Figure{};
           }}}},
        {"Time",
         {{"measured", "Measured", "median of a launch", Better::less,
           [](const ReportItem& item) { return figure(item.measured_ms, time_of); }},
          {"reached", "Measured rate", "", Better::more,
           [](const ReportItem& item) { return figure(measured_tflops(item), rate_text); }},
          {"floor", "Lower bound", "no kernel of this problem is faster", Better::less,
           of_part(
               &Analysis::roofline, [](const Roofline& r) { return r.floor_ms; }, time_of)},
          {"attainable", "Attainable rate", "under the roofline", Better::more,
           of_part(
               &Analysis::roofline, [](const Roofline& r) { return r.attainable_tflops; }, rate_text)},
          {"bound", "Bound by", "", Better::neither,
           [](const ReportItem& item) {
               const auto& roofline = item.analysis.roofline;
               if (!roofline) return Figure{};
               return words(roofline->memory_bound ? "memory"
                                                   : "arithmetic, " + std::string(name(roofline->unit)));
           }},
          {"intensity", "Intensity", "flops per byte, every tensor moved once", Better::neither,
           of_part(
               &Analysis::roofline, [](const Roofline& r) { return r.intensity; },
               [](double value) { return formatted("{:.4g}", value); })}}},
        {"Occupancy",
         {{"blocks", "Blocks at once", "per multiprocessor", Better::more,
           of_part(
               &Analysis::occupancy, [](const Occupancy& o) { return o.blocks; }, grouped)},
          {"limit", "Limited by", "", Better::neither,
           [](const ReportItem& item) {
               const auto& occupancy = item.analysis.occupancy;
               return occupancy ? words(limits_text(*occupancy)) : Figure{};
           }},
          {"warps", "Warps at once", "per multiprocessor", Better::more,
           [](const ReportItem& item) {
               const auto& found = item.analysis.occupancy;
               if (!found) return Figure{};
               return Figure{found->warps, formatted("{} of {}", found->warps, found->most_warps), false};
           }},
          {"occupancy", "Occupancy", "share of the most warps", Better::more,
           of_part(
               &Analysis::occupancy, [](const Occupancy& o) { return o.fraction(); }, percent)},
          {"waves", "Waves", "of blocks", Better::neither,
           of_part(
               &Analysis::waves, [](const Waves& w) { return w.waves; },
               [](double value) { return formatted("{:.4g}", value); })},
          {"efficiency", "Tail", "block places in use over all waves", Better::more,
           of_part(
               &Analysis::waves, [](const Waves& w) { return w.efficiency; }, percent)},
          {"mean-occupancy", "Mean occupancy", "over the run, at most", Better::more,
           of_part(
               &Analysis::waves, [](const Waves& w) { return w.mean_occupancy; }, percent)}}},
        {"Resources",
         {{"registers", "Registers", "per thread", Better::less,
           of([](const Analysis& a) { return number(a.resources.registers); }, grouped)},
          {"spills", "Spills", "bytes per thread", Better::less,
           of([](const Analysis& a) { return number(a.resources.spill_bytes); }, grouped)},
          {"stack", "Stack", "bytes per thread", Better::less,
           of([](const Analysis& a) { return number(a.resources.stack_bytes); }, grouped)},
          {"shared-bytes", "Shared memory", "per block", Better::less,
           of(
               [](const Analysis& a) {
                   return Number(static_cast<double>(a.static_shared_bytes + a.dynamic_shared_bytes));
               },
               amount_text)},
          {"instructions", "Instructions", "in the code", Better::neither,
           of(
               [](const Analysis& a) {
                   const auto found = a.resources.instructions.find("total");
                   return found == a.resources.instructions.end() ? Number() : Number(found->second);
               },
               grouped)}}},
        {"Shared memory accesses",
         {{"excess", "Wavefronts above ideal", "what bank conflicts add", Better::less,
           of([](const Analysis& a) { return shared_if_recorded(a, a.excess()); }, excess_of)},
          {"wavefronts", "Wavefronts", "of the whole grid", Better::less,
           of([](const Analysis& a) { return if_scaled(a, shared_if_recorded(a, a.shared_wavefronts)); },
              count_text)},
          {"ideal", "Ideal wavefronts", "", Better::neither,
           of([](const Analysis& a) { return if_scaled(a, shared_if_recorded(a, a.shared_ideal)); },
              count_text)},
          {"degree", "Greatest conflict", "words that one bank serves in one phase", Better::less,
           of([](const Analysis& a) { return shared_if_recorded(a, worst_degree(a)); },
              [](double value) {
                  return value > 1 ? formatted("{:.0f}-way", value) : std::string("none");
              })}}},
        {"Global memory accesses",
         {{"tiled", "Bytes the blocks ask for", "before any cache", Better::less,
           of([](const Analysis& a) { return a.traffic.tiled_bytes; }, amount_text)},
          {"naive", "Bytes the naive kernel asks for", "", Better::neither,
           of([](const Analysis& a) { return a.traffic.naive_bytes; }, amount_text)},
          {"at-least", "Bytes at least", "every tensor once", Better::neither,
           of(
               [](const Analysis& a) {
                   return a.traffic.bytes_at_least > 0 ? Number(a.traffic.bytes_at_least) : std::nullopt;
               },
               amount_text)},
          {"tile-intensity", "Intensity of a tile", "flops per byte that a block loads", Better::more,
           of([](const Analysis& a) { return a.tile_intensity; },
              [](double value) { return formatted("{:.4g}", value); })},
          {"sector-excess", "Sectors above ideal", "what poor coalescing adds", Better::less,
           of([](const Analysis& a) { return global_if_recorded(a, sector_excess(a)); }, excess_of)},
          {"sectors", "Sectors", "of 32 bytes, of the whole grid", Better::less,
           of([](const Analysis& a) { return if_scaled(a, global_if_recorded(a, a.global_sectors)); },
              count_text)}}},
        {"Soundness",
         {{"problems", "Races, bounds, alignment", "places where something is wrong", Better::less,
           of_part(
               &Analysis::recording, [](const Recording& r) { return r.problems.size(); },
               [](double value) { return value == 0 ? std::string("none found") : grouped(value); })}}}};
    return kAll;
}

/// Items are comparable if they agree in this: chip, problem and types.
std::string contest_of(const ReportItem& item) {
    const Analysis& analysis = item.analysis;
    std::string text = formatted("{}\n{}\n{}\n{}", analysis.arch, analysis.chip_name,
                                 sizes_text(analysis.problem.sizes), analysis.problem.flops);
    for (const Tensor& tensor : analysis.problem.tensors)
        if (tensor.role != TensorRole::scratch) text += "\n" + tensor.name + " " + tensor.type;
    return text;
}

/// Marks the best of these values, unless they are all equal.
void mark_best(Row& row, const std::vector<std::size_t>& numbers) {
    const auto cost = [&](const Figure& one) {
        return row.better == Better::less ? *one.value : -*one.value;
    };
    Number best, worst;
    for (const std::size_t i : numbers) {
        const Figure& one = row.figures[i];
        if (!one.value) continue;
        if (!best || cost(one) < *best) best = cost(one);
        if (!worst || cost(one) > *worst) worst = cost(one);
    }
    if (!best || *best == *worst) return;
    for (const std::size_t i : numbers)
        row.figures[i].best = row.figures[i].value && cost(row.figures[i]) == *best;
}

/// contests: groups of comparable items.
void judge(Row& row, const std::map<std::string, std::vector<std::size_t>>& contests) {
    const auto& figures = row.figures;
    row.differs = std::any_of(figures.begin(), figures.end(),
                              [&](const Figure& one) { return one.text != figures[0].text; });
    if (row.better == Better::neither) return;
    for (const auto& [common, numbers] : contests) mark_best(row, numbers);
}

}  // namespace

double sector_excess(const Analysis& analysis) {
    return analysis.global_ideal == 0 ? 0 : analysis.global_sectors / analysis.global_ideal - 1;
}

std::string excess_text(double excess) {
    if (std::abs(excess) < 5e-5) return "none";
    return (excess > 0 ? "+" : "") + percent(excess);
}

std::vector<RowGroup> rows_of(std::span<const ReportItem> items) {
    std::map<std::string, std::vector<std::size_t>> contests;
    for (std::size_t i = 0; i < items.size(); ++i) contests[contest_of(items[i])].push_back(i);
    std::vector<RowGroup> groups;
    for (const QuantityGroup& group : quantities()) {
        RowGroup result{group.name, {}};
        for (const Quantity& quantity : group.quantities) {
            Row row{quantity.id, quantity.name, quantity.note, quantity.better, {}, false};
            bool any = false;
            for (const ReportItem& item : items) {
                row.figures.push_back(quantity.figure(item));
                any = any || !row.figures.back().text.empty();
            }
            judge(row, contests);
            if (any) result.rows.push_back(std::move(row));
        }
        if (!result.rows.empty()) groups.push_back(std::move(result));
    }
    return groups;
}

}  // namespace kiln::inspect
