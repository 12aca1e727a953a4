// SPDX-License-Identifier: Apache-2.0
//
// A benchmark's report: JSON, a text table, Markdown.
#pragma once

#include <kiln/bench.h>

#include <string>

#include "cli/json.h"
#include "cli/terminal.h"

namespace kiln::cli {

Json to_json(const BenchReport& report);
std::string to_text(const BenchReport& report, const Terminal& terminal);
/// Tables for a document; below the page's own headings.
std::string to_markdown(const BenchReport& report);

}  // namespace kiln::cli
