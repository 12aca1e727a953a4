// SPDX-License-Identifier: Apache-2.0
//
// Figures as reports write them.
#pragma once

#include <kiln/build.h>
#include <kiln/timing.h>

#include <string>
#include <vector>

namespace kiln::cli {

/// printf, at most 511 characters.
__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...);

/// "  TITLE      TEXT\n"
std::string line(const char* title, const std::string& text);

/// Rows in aligned columns, two spaces apart, indented by two; empty columns at the end of a row are left
/// out. right: the columns, from 0, that are aligned on the right, as numbers are.
std::string table(const std::vector<std::vector<std::string>>& rows,
                  const std::vector<std::size_t>& right = {});

/// A paragraph that begins behind `indent` columns and goes on below, broken at spaces where a line would
/// have more than `columns`; 0: one line. A long word is not broken. Without a newline at the end.
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
