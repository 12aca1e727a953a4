// SPDX-License-Identifier: Apache-2.0
//
// The parts of a report's page, as HTML: fragments of page/report.html, filled.
#pragma once

#include <kiln/tools/report.h>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "inspect/report_text.h"

namespace kiln::inspect {

/// A report's items and their labels.
struct Page {
    std::span<const ReportItem> items;
    std::vector<Label> labels;
};

/// The whole of it.
std::string page_html(const Page& page, const ReportOptions& options);

using Values = std::initializer_list<std::pair<std::string_view, std::string_view>>;
/// A fragment of page/report.html with these values in its places. Throws std::logic_error if it has no such fragment, or
/// a place without a value.
std::string html(std::string_view fragment, Values values);
/// The value for what is there or not.
constexpr std::string_view flag(bool there) { return there ? "yes" : ""; }
/// A number with all digits, for scripts and tests.
std::string exactly(double value);
/// The letter of a variant in its colour.
std::string badge(const Page& page, std::size_t item);

/// A group of items with one source text.
struct SourceGroup {
    std::vector<std::size_t> items;
    std::string id;  ///< "source-1"
};
std::vector<SourceGroup> source_groups(const Page& page);
/// The id of a line of an item's source, or "" when the page does not show it.
std::string line_id(const Page& page, std::size_t item, const SourcePlace& place);

/// A template's text with each variant's wavefronts next to every line.
std::string source_section(const Page& page, const SourceGroup& group);
/// All about one variant: advice, problems, accesses, banks, occupancy.
std::string variant_section(const Page& page, std::size_t item);
/// Where the numbers come from.
std::string origins_section(const Page& page);

}  // namespace kiln::inspect
