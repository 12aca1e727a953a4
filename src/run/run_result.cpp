// SPDX-License-Identifier: Apache-2.0
//
// Functions of a result: whether it is right, failures as sentences, throughput.
#include <kiln/run.h>

#include <cmath>

#include "base/words.h"
#include "format/format.h"

namespace kiln {
namespace {

std::string figure(double value) { return formatted("{:.9g}", value); }

std::string index_text(const std::vector<std::int64_t>& index) {
    std::vector<std::string> parts;
    for (const std::int64_t i : index) parts.push_back(std::to_string(i));
    return "[" + join(parts) + "]";
}

std::string failure(const OutputCheck& output) {
    const OutputCheck::Wrong& first = *output.first_wrong;
    return formatted(
        "{} of {} checked elements of {} are wrong{}, the first at {}: {}, expected {}{}{}", output.wrong,
        output.checked, output.tensor,
        output.later_launch ? " after a later launch on the same inputs, whose first was right" : "",
        index_text(first.index), figure(first.found), figure(first.expected),
        std::isnan(first.bound) ? ", for which the reference gives no bound"
        : first.bound < 0       ? ", for which the reference gives a negative bound"
        : first.bound > 0       ? " within " + figure(first.bound)
                                : " exactly",
        output.data == Data::contributions ? ", on inputs that make each contribution visible." : ".");
}

std::optional<double> rate(std::int64_t amount, const std::optional<TimeSummary>& time) {
    if (!time || !(time->median_ms > 0) || amount <= 0) return std::nullopt;
    return static_cast<double>(amount) / time->median_ms / 1e6;
}

}  // namespace

std::string Overrun::text() const {
    const std::string side = before ? "before the start of " : "after the end of ";
    if (distance == 0) return "right " + side + tensor;
    return side + tensor + ", " + counted(distance, "byte", "bytes") + " away";
}

bool RunResult::pass() const { return failures().empty(); }

std::vector<std::string> RunResult::failures() const {
    std::vector<std::string> sentences;
    for (const auto* const checks : {&outputs_checked, &contributions_checked}) {
        for (const OutputCheck& output : *checks) {
            if (output.wrong > 0) sentences.push_back(failure(output));
            if (output.wrong_rows.value_or(0) > 0)
                sentences.push_back(
                    formatted("{} rows of {} fail Freivalds' test.", *output.wrong_rows, output.tensor));
            if (output.unwritten > 0)
                sentences.push_back(formatted("{} of {} elements of {} were never written.", output.unwritten,
                                              output.elements, output.tensor));
        }
    }
    for (const Overrun& place : overrun) sentences.push_back("The kernel wrote " + place.text() + ".");
    for (const std::string& tensor : changed)
        sentences.push_back("The kernel wrote to its input " + tensor + ".");
    for (const std::string& tensor : not_zeroed)
        sentences.push_back("The kernel does not leave its scratch " + tensor +
                            " zeroed, as the next launch needs it.");
    for (const std::string& tensor : unstable)
        sentences.push_back(
            "Launches on the same inputs give different bits in " + tensor +
            ", as where a barrier is missing, shared memory is read that nobody wrote, or atomic operations "
            "add floating-point numbers, which `any_order` behind the output's reference allows; on the host "
            "one of them takes another order of each block's threads.");
    for (const auto& [output, tensor] : dependent)
        sentences.push_back(
            formatted("{} depends on what {} held before the launch: the kernel reads elements "
                      "of {} that it has not written.",
                      output, output == tensor ? "it" : tensor, tensor));
    return sentences;
}

std::optional<double> RunResult::gflops() const { return rate(problem.flops, time); }
std::optional<double> RunResult::gbps() const { return rate(problem.bytes, time); }

inline namespace KILN_ABI {

std::string_view name(Check check) {
    constexpr std::string_view kNames[] = {"full", "sample", "none", "freivalds"};
    return kNames[static_cast<int>(check)];
}
std::string_view name(Data data) {
    return data == Data::random ? "random" : data == Data::integers ? "integers" : "contributions";
}

}  // namespace KILN_ABI
}  // namespace kiln
