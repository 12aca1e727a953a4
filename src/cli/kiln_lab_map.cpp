// SPDX-License-Identifier: Apache-2.0
//
// Which element of a matrix lies in which bank: as text, and as an SVG image.
#include <algorithm>
#include <cmath>

#include "cli/figures.h"
#include "cli/kiln_lab.h"

namespace kiln::cli {
namespace {

constexpr int kChunkBytes = 16;

Wavefronts read_by_lanes(const LabLayout& layout, const BankModel& model,
                         const std::function<std::pair<int, int>(int lane)>& element, int count) {
    std::vector<std::optional<std::uint32_t>> addresses;
    for (int lane = 0; lane < std::min(model.lanes, count); ++lane) {
        const auto [row, column] = element(lane);
        addresses.emplace_back(layout.address(row, column));
    }
    return wavefronts(addresses, layout.element_bytes, model);
}

std::string counted(const char* what, const Wavefronts& taken) {
    return format("%s: %d wavefront%s, ideal %d%s", what, taken.actual, taken.actual == 1 ? "" : "s",
                  taken.ideal,
                  taken.actual > taken.ideal ? format(", %d-way conflict", taken.degree).c_str() : "");
}

std::string described(const LabLayout& layout, const BankModel& model) {
    std::string text =
        format("%s [%d][%d", layout.element_bytes == 2 ? "half" : "float", layout.rows, layout.columns);
    if (layout.pad > 0) text += format("+%d", layout.pad);
    return text + format("]%s, %d banks of %d bytes", layout.swizzle ? ", 16-byte chunks swizzled" : "",
                         model.banks, model.bank_bytes);
}

/// Neighbouring banks have colours that can be told apart, and all banks different ones.
std::string colour_of(int bank, int banks) {
    const int hue = bank * 360 / banks;
    const int light = bank % 2 == 0 ? 78 : 64;
    return format("hsl(%d,70%%,%d%%)", hue, light);
}

}  // namespace

std::uint32_t LabLayout::address(int row, int column) const {
    int offset = column * element_bytes;
    if (swizzle) {
        // As many chunks change places as a row has, counted down to a power of two, and at most the eight
        // that make up all banks. Rows that share one line of all banks change alike: they do not meet
        // anyway.
        constexpr int kLineBytes = 128;
        int chunks = 1;
        while (chunks * 2 * kChunkBytes <= columns * element_bytes && chunks * 2 * kChunkBytes <= kLineBytes)
            chunks *= 2;
        const int rows_per_line = std::max(1, kLineBytes / ((columns + pad) * element_bytes));
        offset ^= row / rows_per_line % chunks * kChunkBytes;
    }
    return static_cast<std::uint32_t>(row * (columns + pad) * element_bytes + offset);
}

Wavefronts column_wavefronts(const LabLayout& layout, const BankModel& model) {
    return read_by_lanes(
        layout, model, [](int lane) { return std::pair(lane, 0); }, layout.rows);
}

Wavefronts row_wavefronts(const LabLayout& layout, const BankModel& model) {
    return read_by_lanes(
        layout, model, [](int lane) { return std::pair(0, lane); }, layout.columns);
}

std::string layout_text(const LabLayout& layout, const BankModel& model) {
    std::string text = described(layout, model) + "; the bank of each element:\n\n";
    const int width = 2 + (model.banks > 10);
    for (int row = 0; row < layout.rows; ++row) {
        text += format("%5d |", row);
        for (int column = 0; column < layout.columns; ++column)
            text += format("%*d", width, bank_of(layout.address(row, column), model));
        text += "\n";
    }
    return text + "\n" + counted("a column, an element per lane", column_wavefronts(layout, model)) + "\n" +
           counted("a row, an element per lane", row_wavefronts(layout, model)) + "\n";
}

std::string layout_svg(const LabLayout& layout, const BankModel& model) {
    constexpr int kCell = 22, kHigh = 18, kLeft = 44, kTop = 62;
    const int width = kLeft + layout.columns * kCell + 10, height = kTop + layout.rows * kHigh + 10;
    std::string svg = format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
        "font-family=\"sans-serif\" font-size=\"10\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
        std::max(width, 520), height);
    svg += format("<text x=\"10\" y=\"18\" font-size=\"13\">%s</text>\n", described(layout, model).c_str());
    svg += format("<text x=\"10\" y=\"34\">%s; %s</text>\n",
                  counted("a column", column_wavefronts(layout, model)).c_str(),
                  counted("a row", row_wavefronts(layout, model)).c_str());
    for (int column = 0; column < layout.columns; ++column)
        svg += format("<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"#666\">%d</text>\n",
                      kLeft + column * kCell + kCell / 2, kTop - 5, column);
    for (int row = 0; row < layout.rows; ++row) {
        svg += format("<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"#666\">%d</text>\n", kLeft - 6,
                      kTop + row * kHigh + 13, row);
        for (int column = 0; column < layout.columns; ++column) {
            const int bank = bank_of(layout.address(row, column), model);
            const int x = kLeft + column * kCell, y = kTop + row * kHigh;
            svg += format(
                "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\" stroke=\"white\"/>"
                "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%d</text>\n",
                x, y, kCell, kHigh, colour_of(bank, model.banks).c_str(), x + kCell / 2, y + 13, bank);
        }
    }
    return svg + "</svg>\n";
}

}  // namespace kiln::cli
