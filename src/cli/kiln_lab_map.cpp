// SPDX-License-Identifier: Apache-2.0
//
// The bank of each element of a matrix, as text. bank_map_svg (kiln/tools/report.h) draws it.
#include <algorithm>

#include "cli/kiln_lab.h"
#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

std::string counted(const std::string& what, const Wavefronts& taken) {
    return formatted("{}: {} wavefront{}, ideal {}{}", what, taken.actual, taken.actual == 1 ? "" : "s",
                     taken.ideal,
                     taken.actual > taken.ideal ? formatted(", {}-way conflict", taken.degree) : "");
}

/// One layout as lines.
std::vector<std::string> lines_of(const LabLayout& layout, const BankModel& model, bool alone) {
    std::vector<std::string> lines;
    lines.push_back(
        layout.text() +
        (alone ? formatted(", {} banks of {} bytes; the bank of each element:", model.banks, model.bank_bytes)
               : ""));
    lines.emplace_back();
    const int width = 2 + (model.banks > 10);
    for (int row = 0; row < layout.rows; ++row) {
        std::string line = formatted("{:5} |", row);
        for (int column = 0; column < layout.columns; ++column)
            line += formatted("{:{}}", bank_of(layout.address(row, column), model), width);
        lines.push_back(std::move(line));
    }
    lines.emplace_back();
    const char* const more = alone ? ", an element per lane" : "";
    lines.push_back(counted(formatted("a column{}", more), layout.read_column(model)));
    lines.push_back(counted(formatted("a row{}", more), layout.read_row(model)));
    return lines;
}

}  // namespace

std::string layouts_text(std::span<const LabLayout> layouts, const BankModel& model, int columns) {
    constexpr std::size_t kGap = 4;
    std::string text;
    if (layouts.size() > 1)
        text = formatted(
            "The bank of each element, of {} banks of {} bytes; columns and rows are read an element per "
            "lane.\n\n",
            model.banks, model.bank_bytes);
    std::vector<std::string> band;  // of layouts side by side
    const auto finish_band = [&] {
        for (std::string& line : band) {
            line.erase(line.find_last_not_of(' ') + 1);
            text += line + "\n";
        }
        band.clear();
    };
    std::size_t filled = 0;
    for (const LabLayout& layout : layouts) {
        const std::vector<std::string> lines = lines_of(layout, model, layouts.size() == 1);
        std::size_t width = 0;
        for (const std::string& line : lines) width = std::max(width, line.size());
        if (!band.empty() && columns > 0 && filled + kGap + width > static_cast<std::size_t>(columns)) {
            finish_band();
            text += "\n";
        }
        if (band.empty()) {
            band.resize(lines.size());
            filled = 0;
        } else {
            filled += kGap;
        }
        for (std::size_t i = 0; i < lines.size(); ++i) {
            band[i].resize(filled, ' ');
            band[i] += lines[i];
        }
        filled += width;
    }
    finish_band();
    return text;
}

}  // namespace kiln::cli
