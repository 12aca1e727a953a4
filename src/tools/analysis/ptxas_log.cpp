// SPDX-License-Identifier: Apache-2.0
//
// Reads these lines, a group per kernel:
//   ptxas info    : Compiling entry function 'gemm' for 'sm_90a'
//   ptxas info    : Function properties for gemm
//   ptxas         .     128 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads
//   ptxas info    : Used 32 registers, used 1 barriers, 128 bytes cumulative stack size, 1024 bytes smem
#include "analysis/ptxas_log.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace kiln {
namespace {

std::string_view line_at(std::string_view text, std::size_t begin) {
    const std::string_view rest = text.substr(begin);
    return rest.substr(0, rest.find('\n'));
}

/// The number before `words`.
std::optional<std::uint64_t> number_before(std::string_view line, std::string_view words) {
    const std::size_t end = line.find(words);
    if (end == std::string_view::npos) return std::nullopt;
    std::size_t begin = end;
    while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
    std::uint64_t number = 0;
    const auto [stop, error] = std::from_chars(line.data() + begin, line.data() + end, number);
    if (error != std::errc() || begin == end) return std::nullopt;
    return number;
}

}  // namespace

std::optional<PtxasUsage> ptxas_usage(std::string_view log, std::string_view kernel) {
    constexpr std::string_view kEntry = "Compiling entry function '";
    const std::string head = std::string(kEntry) + std::string(kernel) + "'";
    const std::size_t begin = log.find(head);
    if (begin == std::string_view::npos) return std::nullopt;
    std::string_view group = log.substr(begin + head.size());
    group = group.substr(0, group.find(kEntry));

    // The properties of called functions are in the same group.
    const std::string properties = "Function properties for " + std::string(kernel) + "\n";
    const std::size_t own = group.find(properties);
    const std::size_t used = group.find("Used ");
    if (own == std::string_view::npos || used == std::string_view::npos) return std::nullopt;
    const std::string_view stack = line_at(group, own + properties.size());
    const std::string_view usage = line_at(group, used);

    const auto registers = number_before(usage, " registers");
    const auto frame = number_before(stack, " bytes stack frame");
    const auto stores = number_before(stack, " bytes spill stores");
    const auto loads = number_before(stack, " bytes spill loads");
    constexpr std::uint64_t kMostRegisters = 1024;  // more than any device has, so not a count of registers
    if (!registers || *registers > kMostRegisters || !frame || !stores || !loads) return std::nullopt;
    PtxasUsage result;
    result.registers = static_cast<int>(*registers);
    result.stack_bytes = std::max(*frame, number_before(usage, " bytes cumulative stack size").value_or(0));
    result.spill_bytes = *stores + *loads;
    result.shared_bytes = number_before(usage, " bytes smem").value_or(0);
    return result;
}

}  // namespace kiln
