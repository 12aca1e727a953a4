// SPDX-License-Identifier: Apache-2.0
//
// Figures as reports write them.
#pragma once

#include <kiln/build.h>

#include <string>
#include <vector>

namespace kiln::cli {

/// printf, at most 511 characters.
__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...);

/// "  TITLE      TEXT\n"
std::string line(const char* title, const std::string& text);

/// Rows in aligned columns, two spaces apart, indented by two; empty columns at the end of a row are left
/// out.
std::string table(const std::vector<std::vector<std::string>>& rows);

/// "1.25 us", "3.4 ms", "2.1 s"
std::string duration(double ms);

/// "compiled in 1.2 s", "from the cache (disk) in 140 us"
std::string origin_text(Origin origin, double elapsed_ms);

}  // namespace kiln::cli
