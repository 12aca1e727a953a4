// SPDX-License-Identifier: Apache-2.0
//
// What ptxas reports about a kernel with --ptxas-options=-v.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln {

struct PtxasUsage {
    int registers = 0;  ///< per thread
    std::uint64_t shared_bytes = 0;
    std::uint64_t stack_bytes = 0;  ///< per thread; with the functions that it calls
    std::uint64_t spill_bytes = 0;  ///< stored and loaded
};

/// nullopt: the log has nothing about that kernel, or is incomplete.
std::optional<PtxasUsage> ptxas_usage(std::string_view log, std::string_view kernel);

}  // namespace kiln
