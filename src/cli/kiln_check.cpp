// SPDX-License-Identifier: Apache-2.0
//
// kiln check: problems found by recording a run on the host, with the source lines of both accesses.
#include <kiln/error.h>
#include <kiln/tools/analyze.h>

#include <algorithm>
#include <sstream>

#include "cli/command_line.h"
#include "cli/kiln_command.h"
#include "cli/option_values.h"
#include "cli/run_report.h"
#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

constexpr std::uint64_t kBlocks = 64;
constexpr double kMostMs = 60'000;

std::string stripped(const std::string& line) {
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos) return {};
    return line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
}

/// The lines of a template and of its headers.
class SourceText {
  public:
    explicit SourceText(Source source) : source_(std::move(source)) {
        // The template's own lines begin at the #line 1 of specialising.
        const std::size_t mark = own_text_begin(source_.text);
        if (mark != std::string::npos) source_.text.erase(0, source_.text.find('\n', mark) + 1);
    }

    /// Without surrounding space; empty if it is not known.
    std::string line(const std::string& file, int number) const {
        if (file == source_.file_name) return nth(source_.text, number);
        for (const Header& header : source_.headers)
            if (header.name == file) return nth(header.text, number);
        return {};
    }

  private:
    static std::string nth(const std::string& text, int number) {
        std::istringstream lines(text);
        std::string found;
        for (int i = 0; i < number; ++i)
            if (!std::getline(lines, found)) return {};
        return stripped(found);
    }

    Source source_;
};

bool is_warning(const AccessProblem& problem, bool strict) {
    return problem.kind == ProblemKind::uninitialised && !strict;
}

/// "    gemm_tiled.cu:41 | tile[...] = ..."
std::string place_lines(const SourcePlace& place, const SourceText& source) {
    if (place.line == 0) return {};
    std::string text;
    const auto add = [&](const std::string& file, int number) {
        text += formatted("      {}:{} | {}\n", file, number, source.line(file, number));
    };
    add(place.file, place.line);
    // "kiln/reduce.h:88"
    if (const std::size_t colon = place.inner.rfind(':'); colon != std::string::npos)
        if (const int number = std::atoi(place.inner.c_str() + colon + 1); number > 0)
            add(place.inner.substr(0, colon), number);
    return text;
}

std::string problem_text(const AccessProblem& problem, const SourceText& source, bool strict,
                         const Terminal& terminal) {
    const bool warning = is_warning(problem, strict);
    // Its text begins with its kind.
    const std::string kind(name(problem.kind));
    std::string text = problem.text();
    if (!warning && text.starts_with(kind + ": ")) text.erase(0, kind.size() + 2);
    std::string result = "  " +
                         terminal.painted(warning ? Colour::none : Colour::red, warning ? "warning" : kind) +
                         ": " + wrapped(text, 4, terminal.output_columns()) + "\n";
    result += place_lines(problem.place, source);
    if (problem.kind == ProblemKind::race && problem.other != problem.place)
        result += place_lines(problem.other, source);
    return result;
}

Json place_json(const SourcePlace& place, const SourceText& source) {
    if (place.line == 0) return {};
    return {{"file", place.file},
            {"line", place.line},
            {"inner", place.inner.empty() ? Json() : Json(place.inner)},
            {"source", source.line(place.file, place.line)}};
}

Json problem_json(const AccessProblem& problem, const SourceText& source, bool strict) {
    const bool race = problem.kind == ProblemKind::race;
    Json json;
    json["kind"] = name(problem.kind);
    json["warning"] = is_warning(problem, strict);
    json["text"] = problem.text();
    json["access"] = name(problem.access);
    json["thread"] = problem.thread;
    json["place"] = place_json(problem.place, source);
    json["other_access"] = race ? Json(name(problem.other_access)) : Json();
    json["other_thread"] = race ? Json(problem.other_thread) : Json();
    json["other"] = race ? place_json(problem.other, source) : Json();
    json["variable"] = problem.variable.empty() ? Json() : Json(problem.variable);
    json["tensor"] = problem.tensor.empty() ? Json() : Json(problem.tensor);
    json["offset"] = problem.offset;
    json["bytes"] = problem.bytes;
    json["index"] = or_null(problem.index);
    json["block"] = Json::array({problem.block.x, problem.block.y, problem.block.z});
    json["count"] = problem.count;
    return json;
}

/// The number of requests that were checked.
std::uint64_t requests(const Recording& recording) {
    std::uint64_t sum = 0;
    for (const SharedSite& site : recording.shared) sum += site.as_written.requests;
    for (const GlobalSite& site : recording.global) sum += site.requests;
    return sum;
}

std::string covered_text(const Recording& recording) {
    const bool are_first = recording.first_blocks && recording.blocks_recorded < recording.blocks;
    return formatted(
        "{}{} of {} blocks{}, {} accesses of warps from {} places to shared and {} to global memory",
        are_first ? "the first " : "", recording.blocks_recorded, recording.blocks,
        are_first ? " (others wait in loops for those before them, as it seems)" : "", requests(recording),
        recording.shared.size(), recording.global.size());
}

struct Checked {
    Variant variant;
    Sizes sizes;
    Recording recording;
    int problems = 0, warnings = 0;
};

std::string to_text(const Checked& checked, const SourceText& source, bool strict, const Terminal& terminal) {
    const std::string sizes = sizes_text(checked.variant.origin(), checked.sizes);
    std::string text = checked.variant.text() + (sizes.empty() ? "" : "\n  at " + sizes) + "\n";
    for (const AccessProblem& problem : checked.recording.problems)
        text += problem_text(problem, source, strict, terminal);
    if (checked.recording.blocks_recorded == 0 && checked.problems == 0)
        return text + "  nothing was checked: at these sizes the kernel has no blocks\n";
    if (checked.problems == 0)
        text += "  " + terminal.painted(Colour::green, "CLEAN") +
                "    no race in shared memory, nothing out of bounds, nothing misaligned: ";
    else
        text += "  checked ";
    return text + covered_text(checked.recording) + "\n";
}

}  // namespace

int check(const Call& call) {
    Warnings warnings(call.terminal);
    ServiceOptions setup = compile_options(call, warnings);
    setup.backend = Backend::host;
    const auto service = open_service(call, warnings, std::move(setup));
    const std::vector<Variant> variants =
        chosen_variants(service->find(call.words[0]), std::span(call.words).subspan(1));
    const bool strict = call.flag("strict");
    AnalyzeOptions options;
    options.sizes = given_sizes(call);
    options.most_blocks =
        call.has("blocks") ? parse_whole("--blocks", call.value("blocks"), 1, 1'000'000) : kBlocks;
    options.most_ms = kMostMs;

    Analyzer analyzer(*service);
    int problems = 0, warned = 0, failed = 0;
    Json list = Json::array();
    std::string text;
    for (const Variant& variant : variants) {
        Checked checked{variant, variant.problem(options.sizes, true).sizes, {}};
        try {
            const Progress progress(call.terminal, "checking " + variant.text());
            checked.recording = analyzer.check(variant, options);
        } catch (const DeviceError& error) {
            // One of several variants can't be run; continue with the others.
            if (variants.size() == 1 || call.interrupts.signal() != 0) throw;
            ++failed;
            text += (text.empty() ? "" : "\n") + variant.text() + "\n  " +
                    call.terminal.painted(Colour::red, "FAILED") + ": " + error.what() + "\n";
            list.push_back({{"template", variant.template_name()},
                            {"values", values_json(variant.values())},
                            {"sizes", nullptr},
                            {"blocks", nullptr},
                            {"blocks_checked", nullptr},
                            {"accesses", nullptr},
                            {"problems", Json::array()},
                            {"error", {{"kind", classify(error).kind}, {"message", error.what()}}}});
            continue;
        }
        for (const AccessProblem& problem : checked.recording.problems)
            ++(is_warning(problem, strict) ? checked.warnings : checked.problems);
        problems += checked.problems;
        warned += checked.warnings;
        const SourceText source(variant.source(Backend::host));
        text += (text.empty() ? "" : "\n") + to_text(checked, source, strict, call.terminal);
        Json found = Json::array(), sizes = Json::object();
        for (const auto& [size, value] : checked.sizes) sizes[size] = value;
        for (const AccessProblem& problem : checked.recording.problems)
            found.push_back(problem_json(problem, source, strict));
        list.push_back({{"template", variant.template_name()},
                        {"values", values_json(variant.values())},
                        {"sizes", sizes},
                        {"blocks", checked.recording.blocks},
                        {"blocks_checked", checked.recording.blocks_recorded},
                        {"accesses", requests(checked.recording)},
                        {"problems", found},
                        {"error", nullptr}});
    }
    call.print({{"variants", list}, {"problems", problems}, {"warnings", warned}, {"failed", failed}}, text);
    if (failed > 0) {
        call.terminal.complain(
            formatted("{} of {} variants could not be run to their end.", failed, variants.size()));
        return kDeviceError;
    }
    if (problems == 0) return kPassed;
    call.terminal.complain(formatted("{}{} found.", problems, problems == 1 ? " problem" : " problems"));
    return kNegative;
}

}  // namespace kiln::cli
