// SPDX-License-Identifier: Apache-2.0
//
// The bank of each element of a tile.
#include <kiln/error.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "format/format.h"
#include "inspect/picture.h"
#include "inspect/report_text.h"
#include "inspect/text_format.h"

namespace kiln {
namespace {

using inspect::Anchor;
using inspect::Svg;

constexpr int kChunkBytes = 16;
constexpr double kMargin = 14;

Wavefronts read_by_lanes(const TileLayout& layout, const BankModel& model,
                         const std::function<std::pair<int, int>(int lane)>& element, int count) {
    std::vector<std::optional<std::uint32_t>> addresses;
    for (int lane = 0; lane < std::min(model.lanes, count); ++lane) {
        const auto [row, column] = element(lane);
        addresses.emplace_back(layout.address(row, column));
    }
    return wavefronts(addresses, layout.element_bytes, model);
}

std::string taken_text(const char* what, const Wavefronts& taken) {
    return formatted("{}: {} wavefront{}, ideal {}{}", what, taken.actual, taken.actual == 1 ? "" : "s",
                     taken.ideal,
                     taken.actual > taken.ideal ? formatted(", {}-way conflict", taken.degree) : "");
}

/// From dark blue through grey to light yellow, ever lighter: distinguishable without red and green, and in
/// print.
std::string colour_of(int bank, int banks) {
    const double share = banks > 1 ? static_cast<double>(bank) / (banks - 1) : 0;
    const double away = std::abs(2 * share - 1);  // from the grey in the middle
    return formatted("hsl({},{:.0f}%,{:.0f}%)", share < 0.5 ? 214 : 47, 8 + 62 * away, 26 + 62 * share);
}

Svg drawn(const TileLayout& layout, const BankModel& model) {
    constexpr double kCell = 22, kHigh = 18, kLeft = 34, kTop = 70, kLeastWidth = 250;
    Svg svg(std::max(kLeft + layout.columns * kCell, kLeastWidth), kTop + layout.rows * kHigh);
    const Wavefronts column_read = layout.read_column(model), row_read = layout.read_row(model);
    const auto classes = [](const Wavefronts& taken) { return taken.actual > taken.ideal ? "hot-text" : ""; };
    svg.text(0, 13, layout.text(), "heading");
    svg.text(0, 31, taken_text("a column", column_read), classes(column_read));
    svg.text(0, 48, taken_text("a row", row_read), classes(row_read));
    for (int column = 0; column < layout.columns; ++column)
        svg.text(kLeft + (column + 0.5) * kCell, kTop - 5, std::to_string(column), "tiny", Anchor::middle);
    for (int row = 0; row < layout.rows; ++row) {
        const double y = kTop + row * kHigh;
        svg.text(kLeft - 6, y + 13, std::to_string(row), "tiny", Anchor::end);
        for (int column = 0; column < layout.columns; ++column) {
            const int bank = bank_of(layout.address(row, column), model);
            const double x = kLeft + column * kCell;
            svg.rectangle(x, y, kCell - 1, kHigh - 1, "", "fill=\"" + colour_of(bank, model.banks) + "\"");
            svg.text(x + (kCell - 1) / 2, y + 13, std::to_string(bank),
                     bank * 2 < model.banks ? "bank on-dark" : "bank on-light", Anchor::middle);
        }
    }
    svg.rectangle(kLeft - 1, kTop - 1, kCell + 1, std::min(layout.rows, model.lanes) * kHigh + 1, "lane");
    return svg;
}

}  // namespace

std::uint32_t TileLayout::address(int row, int column) const {
    int offset = column * element_bytes;
    if (swizzle) {
        // The swizzle covers the chunks of a row, rounded down to a power of two, and at most the eight that
        // span all banks. Rows within one line of all banks are swizzled alike, since they do not conflict.
        constexpr int kLineBytes = 128;
        int chunks = 1;
        while (chunks * 2 * kChunkBytes <= columns * element_bytes && chunks * 2 * kChunkBytes <= kLineBytes)
            chunks *= 2;
        const int rows_per_line = std::max(1, kLineBytes / ((columns + pad) * element_bytes));
        offset ^= row / rows_per_line % chunks * kChunkBytes;
    }
    return static_cast<std::uint32_t>(row * (columns + pad) * element_bytes + offset);
}

std::string TileLayout::text() const {
    std::string element = formatted("{} bytes", element_bytes);
    if (element_bytes == 1) element = "byte";
    if (element_bytes == 2) element = "half";
    if (element_bytes == 4) element = "float";
    if (element_bytes == 8) element = "double";
    return formatted("{} [{}][{}{}]{}", element, rows, columns, pad > 0 ? formatted("+{}", pad) : "",
                     swizzle ? ", 16-byte chunks swizzled" : "");
}

Wavefronts TileLayout::read_column(const BankModel& model) const {
    return read_by_lanes(
        *this, model, [](int lane) { return std::pair(lane, 0); }, rows);
}

Wavefronts TileLayout::read_row(const BankModel& model) const {
    return read_by_lanes(
        *this, model, [](int lane) { return std::pair(0, lane); }, columns);
}

inline namespace KILN_ABI {

std::string bank_map_svg(std::span<const TileLayout> layouts, const BankModel& model) {
    constexpr double kWidest = 1600;  // then the next one is below
    struct Placed {
        Svg part;
        double x, y;
    };
    std::vector<Placed> placed;
    double x = kMargin, y = kMargin, width = 0, row_height = 0;
    std::string description;
    for (const TileLayout& layout : layouts) {
        Svg part = drawn(layout, model);
        if (x > kMargin && x + part.width() > kWidest) {
            x = kMargin;
            y += row_height + 2 * kMargin;
            row_height = 0;
        }
        row_height = std::max(row_height, part.height());
        placed.push_back({part, x, y});
        x += part.width() + kMargin;
        width = std::max(width, x);
        description += layout.text() + ": " + taken_text("a column", layout.read_column(model)) + "; " +
                       taken_text("a row", layout.read_row(model)) + ". ";
    }
    constexpr double kFoot = 36;
    Svg all(width, y + row_height + kFoot);
    for (const Placed& one : placed) all.place(one.part, one.x, one.y);
    all.text(kMargin, y + row_height + kFoot - kMargin,
             formatted("The bank of each element, of {} banks of {} bytes; framed: the lanes of a column.",
                       model.banks, model.bank_bytes),
             "title");
    return all.file("The bank of each element", description);
}

}  // namespace KILN_ABI
}  // namespace kiln
