// SPDX-License-Identifier: Apache-2.0
//
// The parts of a report's page, as HTML. Text from outside is escaped where it is inserted.
#pragma once

#include <kiln/tools/report.h>

#include <span>
#include <string>
#include <string_view>
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

/// <NAME ATTRIBUTES>CONTENT</NAME>
std::string element(std::string_view name, std::string_view attributes, std::string_view content);
/// The letter of a variant in its colour.
std::string badge(const Page& page, std::size_t item);
/// A number exactly, for scripts and tests: data-value="0.125".
std::string data_value(double value);
/// A scrollable box that can be focused by keyboard; name: for screen readers, escaped here.
std::string scrolling(std::string_view name, std::string_view content, std::string_view classes = {});

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
