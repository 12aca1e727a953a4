// SPDX-License-Identifier: Apache-2.0
//
// Formats numbers, tables and paragraphs of reports.
#pragma once

#include <kiln/build.h>
#include <kiln/timing.h>

#include <string>
#include <vector>

namespace kiln::cli {

/// "  TITLE      TEXT\n"
std::string line(const char* title, const std::string& text);

/// Rows in aligned columns, two spaces apart, indented by two; trailing empty columns of a row are omitted.
/// right: the columns, from 0, that are aligned on the right, as numbers are.
std::string table(const std::vector<std::vector<std::string>>& rows,
                  const std::vector<std::size_t>& right = {});

/// A paragraph indented by `indent` columns, wrapped at spaces to at most `columns` per line; 0: one line.
/// Long words are not broken. Without a newline at the end.
std::string wrapped(const std::string& text, std::size_t indent, int columns);

/// "1.25 us", "3.4 ms", "2.1 s"
std::string duration(double ms);

/// "median 1.2 ms, min 1.1 ms, max 1.4 ms of 20 launches"
std::string time_text(const TimeSummary& time);

/// "812 GFLOP/s" or "1.2 TFLOP/s"
std::string flops_text(double gflops);

/// "compiled in 1.2 s", "from the cache (disk) in 140 us"
std::string origin_text(Origin origin, double elapsed_ms);

}  // namespace kiln::cli
