// SPDX-License-Identifier: Apache-2.0
//
// Analyses as pictures and as a page: report_html() puts variants side by side in one self-contained HTML file,
// the *_svg() functions draw single pictures. Pure functions, thread-safe; all text that comes in is escaped.
// Every picture is SVG 1.1 with a viewBox, a title and a description, in colours for light and dark.
#pragma once

#include <kiln/template.h>
#include <kiln/tools/analyze.h>
#include <kiln/tools/banks.h>
#include <kiln/version.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// A variant in a report.
struct ReportItem {
    Analysis analysis;        ///< what is shown of it
    std::string summary;      ///< the template's line on what it is; may be empty
    std::string source_file;  ///< "gemm_tiled.cu", as in SourcePlace::file
    std::string source;       ///< the template's text from its line 1 on; empty: the page shows none
    std::optional<double> measured_ms;  ///< of a launch, where one was timed

    /// With the summary and the text of the variant's template.
    static ReportItem of(const Variant& variant, Analysis analysis);
};

/// What a report tells about itself; what is empty is left out.
struct ReportOptions {
    std::string title;    ///< empty: made from the templates' names
    std::string command;  ///< that makes the report again
    std::string machine;  ///< where it was made
    std::string made;     ///< when: "2026-11-21 22:05 UTC"
    std::string version;  ///< of Kiln
};

/// One HTML file without anything to fetch: a table of all quantities, advice, roofline, occupancy, accesses by
/// source line, bank maps, and where the numbers come from. Readable without its script, which folds and sorts.
/// Throws UsageError when there are no items.
std::string report_html(std::span<const ReportItem> items, const ReportOptions& options = {});

/// The roofs of the items' chips, and a point for each item at its intensity: at the measured rate, else at the
/// attainable one; a hollow point where its blocks' loads would put it if no cache served any of them. Items
/// are lettered A, B, ... in their order. Empty when no item has a roofline.
std::string roofline_svg(std::span<const ReportItem> items);

/// Blocks per multiprocessor by each limit, and warps over registers per thread and over shared bytes per block
/// with this variant's point. Empty without an occupancy.
std::string occupancy_svg(const Analysis& analysis);

/// A matrix in shared memory, row-major.
struct TileLayout {
    int rows = 0;           ///< of the matrix
    int columns = 0;        ///< without the padding
    int pad = 0;            ///< elements behind each row
    int element_bytes = 4;  ///< 1, 2, 4, 8 or 16
    bool swizzle = false;   ///< 16-byte chunks of a row change places by the row's number

    /// The byte address of an element, relative to the first.
    std::uint32_t address(int row, int column) const;
    /// "half [32][32+1]", "float [8][32], 16-byte chunks swizzled"
    std::string text() const;
    /// Of a warp that reads the first column, and the first row, an element per lane.
    Wavefronts read_column(const BankModel& model) const;
    /// The same of the first row.
    Wavefronts read_row(const BankModel& model) const;
};

/// Which element lies in which bank, layout next to layout; those that a warp reads of the first column are
/// framed.
std::string bank_map_svg(std::span<const TileLayout> layouts, const BankModel& model);

/// The request of highest degree over the banks: which lane asks which bank for which word, as recorded; and, where
/// lanes conflict and read rows of one pitch, the same with these rows further apart, by the least that helps
/// most, and with them swizzled. Empty when the recording kept no request.
std::string access_map_svg(const SharedSite& site, const BankModel& model);

}  // namespace KILN_ABI
}  // namespace kiln
