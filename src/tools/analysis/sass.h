// SPDX-License-Identifier: Apache-2.0
//
// Reads NVIDIA machine code (SASS), compute capability 7.5 to 12.1, without a disassembler: counts its
// instructions, and finds those that access shared and global memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace kiln {

/// Counts of the instructions of `code` that baselines record, by nvdisasm's names, and "total", all but NOP.
/// compute_capability: 90 for 9.0. A last instruction that is cut off is not counted.
std::map<std::string, int> count_sass(std::span<const std::byte> code, int compute_capability);

/// An instruction by which the lanes of a warp access shared or global memory.
struct SassAccess {
    std::uint64_t offset = 0;  ///< in the code
    std::string name;          ///< as count_sass calls it: "LDS.128", "LDSM", "LDGSTS"
    int bytes = 0;             ///< per lane; of LDSM and STSM 4 for each matrix
};

/// LDS STS LDSM STSM LDGSTS ATOMS LDG STG, in the order of the code.
std::vector<SassAccess> sass_accesses(std::span<const std::byte> code);

}  // namespace kiln
