// SPDX-License-Identifier: Apache-2.0
//
// The parts of `kiln lab banks`: patterns of addresses, their measurement, and layouts as tables.
#pragma once

#include <kiln/service.h>
#include <kiln/tools/banks.h>
#include <kiln/tools/report.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/kiln_command.h"

namespace kiln::cli {

/// The parameters of lab_banks: lane l reads `width` bytes at row * pitch + (chunk ^ (row >> shift & mask)) *
/// width, row = l / share % rows, chunk = l / share / rows.
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
    bool verified = true;  ///< the lanes read the right values
};

/// Builds lab_banks for a pattern and times it. Throws what Service::build and a launch throw.
LabTime measure(Service& service, const LabPattern& pattern, const BankModel& model);

using LabLayout = TileLayout;

/// Tables, one row of the matrix per line, with a note on how columns and rows are read. Several are printed
/// side by side, as many as fit `columns` characters; 0: all.
std::string layouts_text(std::span<const LabLayout> layouts, const BankModel& model, int columns);

}  // namespace kiln::cli
