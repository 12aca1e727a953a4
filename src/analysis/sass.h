// SPDX-License-Identifier: Apache-2.0
//
// Counts instructions of NVIDIA machine code (SASS), compute capability 7.5 to 12.1, without a disassembler.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

namespace kiln {

/// The instructions of `code` that are worth guarding, by the name that nvdisasm gives them, and "total",
/// which is all but NOP. compute_capability: 90 for 9.0. A last instruction that is cut off is not counted.
std::map<std::string, int> count_sass(std::span<const std::byte> code, int compute_capability);

}  // namespace kiln
