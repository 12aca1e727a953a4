// SPDX-License-Identifier: Apache-2.0
//
// The report of kiln run.
#include "cli/run_report.h"

#include <algorithm>

#include "cli/dtype.h"
#include "cli/option_values.h"
#include "cli/program.h"
#include "cli/text_format.h"
#include "cli/tune_report.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

// There is no note while at most one in so many contributions is hidden: the smallest may be within the result's rounding.
constexpr std::uint64_t kFewHidden = 10;

std::string count_text(std::uint64_t count) { return std::to_string(count); }

std::string extents_text(const Tensor& tensor) {
    std::string text;
    for (const std::int64_t extent : tensor.extents)
        text += formatted("{}{}", text.empty() ? "" : " x ", extent);
    return text;
}

std::string visible_text(const std::optional<Contributions>& of) {
    if (!of || of->hidden == 0) return ", each contribution visible";
    return formatted(", {} of {} contributions visible", of->tried - of->hidden, of->tried);
}

std::string output_text(const OutputCheck& output) {
    if (output.elements == 0) return output.tensor + ": there are no elements";
    if (output.checked == 0) return output.tensor + ": not compared with anything";
    const std::string how =
        output.checked == output.elements
            ? "all " + count_text(output.elements) + " elements"
            : count_text(output.checked) + " of " + count_text(output.elements) + " elements";
    const std::string not_finite =
        output.not_finite == 0 ? "" : formatted(", {} of them NaN or infinite", output.not_finite);
    return formatted("{}: at most {:.3g}; at most {:.3g} of the bound; {}{}{}{}", output.tensor,
                     output.max_abs_error, output.worst, how, not_finite,
                     output.wrong_rows ? ", and Freivalds' test of all rows" : "",
                     output.data == Data::contributions ? visible_text(output.contributions) : "");
}

/// What the inputs hold, for a kernel that computes no finite numbers from them.
std::string range_text(Data data) {
    return data == Data::random     ? "Random inputs are in [-1, 1)."
           : data == Data::integers ? "Integers as inputs are -2 to 2."
                                    : "The reference's 'data' lines say what inputs hold here.";
}

/// Of results and bounds that hide what the inputs should show; empty: there is no more to say.
std::string note_text(const OutputCheck& output) {
    if (output.not_finite > 0)
        return formatted(
            "{} of {} checked elements of {} are NaN or infinite, as expected; such an element doesn't show "
            "how it was computed. {}",
            output.not_finite, output.checked, output.tensor, range_text(output.data));
    const auto& of = output.contributions;
    if (!of || of->hidden * kFewHidden <= of->tried) return {};
    return formatted(
        "the bounds of {} hide what a kernel leaves out: {} of {} contributions that were tried change it by "
        "no more, one of {} by {:.3g} where the bound is {:.3g}. Sums of kiln::FloatSum have bounds of 0 "
        "where they are "
        "exact.",
        output.tensor, of->hidden, of->tried, of->input, of->change, of->bound);
}

/// Some finite element was compared with a reference, or there are no elements.
bool is_checked(const RunResult& result) {
    const auto is_telling = [&](const OutputCheck& output) {
        return output.checked > output.not_finite || (output.elements == 0 && result.check != Check::none);
    };
    return std::ranges::any_of(result.outputs_checked, is_telling) ||
           std::ranges::any_of(result.contributions_checked, is_telling);
}

/// Why a run that passes is not checked.
std::string why_not_checked(const RunResult& result) {
    if (result.check == Check::none) return "--check none";
    if (std::ranges::any_of(result.outputs_checked,
                            [](const OutputCheck& output) { return output.not_finite > 0; }))
        return "all that is expected is NaN or infinite";
    return "no output has a reference that bounds it";
}

std::string verdict_text(const RunReport& report, const Terminal& terminal) {
    const RunResult& result = report.result;
    const bool pass = result.pass();
    if (!report.device) return line("NOT RUN", "compiled only");
    if (pass && !is_checked(result)) return line("NOT CHECKED", why_not_checked(result));
    return "  " + terminal.painted(pass ? Colour::green : Colour::red, pass ? "PASS" : "FAIL") + "       " +
           (pass ? formatted("against an FP64 reference, with {} inputs, seed {}", name(report.options.data),
                             report.options.seed)
                 : "see below") +
           "\n";
}

Json output_json(const OutputCheck& output) {
    Json wrong, contributions;
    if (const auto& of = output.contributions)
        contributions = {{"tried", of->tried},
                         {"hidden", of->hidden},
                         {"input", of->input},
                         {"change", of->change},
                         {"bound", of->bound}};
    if (output.first_wrong)
        wrong = {{"index", output.first_wrong->index},
                 {"found", output.first_wrong->found},
                 {"expected", output.first_wrong->expected},
                 {"bound", output.first_wrong->bound}};
    return {{"name", output.tensor},
            {"data", name(output.data)},
            {"elements", output.elements},
            {"checked", output.checked},
            {"wrong", output.wrong},
            {"not_finite", output.not_finite},
            {"unwritten", output.unwritten},
            {"later_launch", output.later_launch},
            {"wrong_rows", or_null(output.wrong_rows)},
            {"max_abs_error", output.max_abs_error},
            {"worst", output.worst},
            {"first_wrong", wrong},
            {"contributions", contributions}};
}

/// "C (5 x 6, f32) = A (5 x 7, f16) * B (7 x 6, f16)"
std::string gemm_text(const Problem& problem) {
    const auto matrix = [&](const char* title, std::size_t i) {
        const Tensor& tensor = problem.tensors[i];
        const auto dtype = dtype_of(tensor.type);
        return title + (" (" + extents_text(tensor)) + ", " +
               (dtype ? std::string(name(*dtype)) : tensor.type) + ")";
    };
    return matrix("C", 2) + " = " + matrix("A", 0) + " * " + matrix("B", 1);
}

Json choice_json(const std::optional<Choice>& choice) {
    if (!choice) return {};
    Json json;
    json["origin"] = name(choice->origin);
    json["text"] = choice->text();
    json["stale"] = choice->stale;
    json["wisdom"] = choice->entry ? to_json(*choice->entry) : Json();
    return json;
}

Json tensors_json(const Problem& problem) {
    Json list = Json::array();
    for (const Tensor& tensor : problem.tensors)
        list.push_back({{"name", tensor.name},
                        {"role", name(tensor.role)},
                        {"type", tensor.type},
                        {"extents", tensor.extents},
                        {"bytes", tensor.size_bytes()}});
    return list;
}

std::string resources_text(const BuildInfo& build) {
    std::string text = formatted("{} shared bytes per block", build.shared_bytes());
    if (build.registers) text += formatted(", {} registers per thread", *build.registers);
    if (build.local_bytes && *build.local_bytes > 0)
        text += formatted(", {} bytes of local memory per thread", *build.local_bytes);
    if (build.blocks_per_multiprocessor)
        text += formatted(", {} blocks per multiprocessor at a time", *build.blocks_per_multiprocessor);
    return text;
}

}  // namespace

std::optional<double> RunReport::speed_up() const {
    if (!naive_result || !naive_result->time || !result.time || !(result.time->median_ms > 0))
        return std::nullopt;
    return naive_result->time->median_ms / result.time->median_ms;
}

std::string sizes_text(const Template& of, const Sizes& sizes) {
    std::string text;
    for (const SizeArgument& size : of.sizes())
        if (const auto found = sizes.find(size.name); found != sizes.end())
            text += formatted("{}{}={}", text.empty() ? "" : " ", size.name, found->second);
    return text;
}

std::string sizes_text(const Variant& variant, const Problem& problem, const RunOptions& options,
                       Backend backend) {
    std::string text = sizes_text(variant.origin(), problem.sizes);
    if (text.empty()) return "no sizes";
    if (options.test_sizes && options.sizes.size() < problem.sizes.size())
        text += backend == Backend::host ? " (the host is slow: sizes that are not given are those of tests)"
                                         : " (sizes that are not given are those of tests)";
    return text;
}

std::string tensors_text(const Problem& problem) {
    std::vector<std::string> tensors;
    for (const Tensor& tensor : problem.tensors)
        tensors.push_back(tensor.name + " " + tensor.type + " (" + extents_text(tensor) + ")");
    return enumerate(tensors, ", ");
}

std::string to_text(const RunReport& report, const Terminal& terminal) {
    const RunResult& result = report.result;
    std::string text = report.variant.text() + "\n\n";
    if (report.choice) text += line("chosen", report.choice->text());
    if (report.options.gemm) text += line("problem", gemm_text(result.problem));
    text += line("sizes", sizes_text(report.variant, result.problem, report.options, report.backend));
    if (!result.problem.tensors.empty()) text += line("tensors", tensors_text(result.problem));
    text += line("device", report.device.value_or("none, compiled only") + " (" +
                               std::string(name(report.backend)) + ", " + report.arch + ")");
    text += line("build", origin_text(result.origin, result.build.build_ms) +
                              (report.device ? ", loaded in " + duration(result.build.load_ms) : ""));
    text += line("key", result.build.key.digest);
    text += line("resources", resources_text(result.build));
    if (result.time) text += line("time", time_text(*result.time));
    if (result.graph_time)
        text += line("graph", formatted("median {} per launch, min {} of {} replays",
                                        duration(result.graph_time->median_ms),
                                        duration(result.graph_time->min_ms), result.graph_time->iterations));
    std::string flops;
    if (const auto gflops = result.gflops()) flops = flops_text(*gflops) + ", ";
    if (const auto gbps = result.gbps())
        text += line("throughput", formatted("{}{:.4g} GB/s (from the median)", flops, *gbps));
    if (const auto speed_up = report.speed_up())
        text += line("naive", formatted("{}: median {}, {:.4g} times as long", report.naive->text(),
                                        duration(report.naive_result->time->median_ms), *speed_up));
    for (const auto* const checks : {&result.outputs_checked, &result.contributions_checked})
        for (const OutputCheck& output : *checks) {
            text += line("error", output_text(output));
            if (const std::string note = note_text(output); !note.empty()) text += line("note", note);
        }
    return text + verdict_text(report, terminal);
}

Json to_json(const RunReport& report) {
    const RunResult& result = report.result;
    const BuildInfo& build = result.build;
    Json sizes = Json::object(), outputs = Json::array();
    for (const auto& [size, value] : result.problem.sizes) sizes[size] = value;
    for (const auto* const checks : {&result.outputs_checked, &result.contributions_checked})
        for (const OutputCheck& output : *checks) outputs.push_back(output_json(output));
    Json json;
    json["template"] = report.variant.template_name();
    json["values"] = values_json(report.variant.values());
    json["backend"] = name(report.backend);
    json["device"] = or_null(report.device);
    json["choice"] = choice_json(report.choice);
    json["arch"] = report.arch;
    json["sizes"] = sizes;
    json["tensors"] = tensors_json(result.problem);
    json["data"] = name(report.options.data);
    json["seed"] = report.options.seed;
    json["tier"] = name(result.origin);
    json["key"] = build.key.digest;
    json["build_ms"] = build.build_ms;
    json["load_ms"] = report.device ? Json(build.load_ms) : Json();
    json["shared_bytes"] = build.shared_bytes();
    json["registers"] = or_null(build.registers);
    json["local_bytes"] = or_null(build.local_bytes);
    json["blocks_per_sm"] = or_null(build.blocks_per_multiprocessor);
    json["time_ms"] = time_json(result.time);
    json["graph_ms"] = time_json(result.graph_time);
    json["flops"] = result.problem.flops;
    json["bytes"] = result.problem.bytes;
    json["gflops"] = or_null(result.gflops());
    json["gbps"] = or_null(result.gbps());
    json["naive"] = Json();
    if (report.naive)
        json["naive"] = {{"template", report.naive->template_name()},
                         {"values", values_json(report.naive->values())},
                         {"time_ms", time_json(report.naive_result->time)},
                         {"speed_up", or_null(report.speed_up())}};
    json["check"] = name(result.check);
    // JSON has no infinity: an error that is not finite is null.
    json["outputs"] = outputs;
    json["overrun"] = Json::array();
    for (const Overrun& place : result.overrun)
        json["overrun"].push_back(
            {{"tensor", place.tensor}, {"before", place.before}, {"distance", place.distance}});
    json["changed"] = result.changed;
    json["not_zeroed"] = result.not_zeroed;
    json["unstable"] = result.unstable;
    json["dependent"] = Json::array();
    for (const auto& [output, tensor] : result.dependent)
        json["dependent"].push_back({{"output", output}, {"tensor", tensor}});
    json["failures"] = result.failures();
    json["pass"] = result.pass() && !is_checked(result) ? Json() : Json(result.pass());
    return json;
}

int told(const RunResult& result, const Terminal& terminal) {
    const std::vector<std::string> failures = result.failures();
    if (failures.empty()) return kPassed;
    std::string message = "wrong result:";
    for (const std::string& failure : failures) message += " " + failure;
    terminal.complain(message);
    return kNegative;
}

}  // namespace kiln::cli
