// SPDX-License-Identifier: Apache-2.0
//
// What is compared between variants: one row per quantity, a figure per variant, which of them are best.
#pragma once

#include <kiln/tools/report.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kiln::inspect {

enum class Better { neither, less, more };

struct Figure {
    std::optional<double> value;  ///< not set: words only, or not known
    std::string text;             ///< for people; empty: not known
    bool best =
        false;  ///< of those in its row with the same chip, problem and types, if they are not all alike
};

struct Row {
    std::string id;    ///< "registers"
    std::string name;  ///< "Registers per thread"
    std::string note;  ///< what it means, in half a line; may be empty
    Better better = Better::neither;
    std::vector<Figure> figures;  ///< one per item
    bool differs = false;
};

struct RowGroup {
    std::string name;
    std::vector<Row> rows;
};

/// Without rows, and groups, of which no variant has a figure.
std::vector<RowGroup> rows_of(std::span<const ReportItem> items);

/// Global sectors above the ideal, as excess() is for wavefronts.
double sector_excess(const Analysis& analysis);
/// "+5.0%", "none"
std::string excess_text(double excess);

}  // namespace kiln::inspect
