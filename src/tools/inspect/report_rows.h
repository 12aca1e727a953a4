// SPDX-License-Identifier: Apache-2.0
//
// The comparison of variants: one row per quantity, a value per variant, and which of them are best.
#pragma once

#include <kiln/tools/report.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kiln::inspect {

enum class Better { neither, less, more };

struct Figure {
    std::optional<double> value;  ///< not set: text only, or not known
    std::string text;             ///< for people; empty: not known
    bool best =
        false;  ///< the best among comparable items (same chip, problem and types), if they are not all equal
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

/// Without rows and groups for which no variant has a value.
std::vector<RowGroup> rows_of(std::span<const ReportItem> items);

/// Global sectors above the ideal, as excess() is for wavefronts.
double sector_excess(const Analysis& analysis);
/// "+5.0%", "none"
std::string excess_text(double excess);

}  // namespace kiln::inspect
