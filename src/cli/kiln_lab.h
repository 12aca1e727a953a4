// SPDX-License-Identifier: Apache-2.0
//
// The parts of `kiln lab banks`: patterns of addresses, their measurement, and pictures of layouts.
#pragma once

#include <kiln/banks.h>
#include <kiln/service.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/kiln_command.h"

namespace kiln::cli {

/// What the parameters of lab_banks mean by the same names: lane l reads `width` bytes at
/// row * pitch + (chunk ^ (row >> shift & mask)) * width, row = l / share % rows, chunk = l / share / rows.
struct LabPattern {
    std::string name;
    std::string text;
    int width = 4;
    int pitch = 4;
    int rows = 64;
    int share = 1;
    int shift = 0;
    int mask = 0;

    std::uint32_t address(int lane) const;
    Wavefronts predicted(const BankModel& model) const;
};

/// The patterns of the lab, strides first.
std::vector<LabPattern> lab_patterns(const std::vector<int>& strides);
/// "1,2,33" or "1..64" or both. Throws UsageError.
std::vector<int> parse_strides(const std::string& text);

struct LabTime {
    double cycles = 0;     ///< of the multiprocessor, per access of a warp; the least of several launches
    bool verified = true;  ///< what was read is what lies there
};

/// Builds lab_banks for a pattern and times it. Throws what Service::build and a launch throw.
LabTime measure(Service& service, const LabPattern& pattern, const BankModel& model);

/// Which element lies in which bank: a matrix in shared memory.
struct LabLayout {
    int rows = 0;
    int columns = 0;
    int pad = 0;            ///< elements behind each row
    int element_bytes = 4;  ///< 2 or 4
    bool swizzle = false;   ///< 16-byte chunks of a row change places by the row's number

    std::uint32_t address(int row, int column) const;
};

/// A table, one row of the matrix per line; a note on how the columns of the matrix are read.
std::string layout_text(const LabLayout& layout, const BankModel& model);
std::string layout_svg(const LabLayout& layout, const BankModel& model);
/// The wavefronts of a warp that reads a column, and of one that reads a row, an element per lane.
Wavefronts column_wavefronts(const LabLayout& layout, const BankModel& model);
Wavefronts row_wavefronts(const LabLayout& layout, const BankModel& model);

}  // namespace kiln::cli
