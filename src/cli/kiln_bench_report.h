// SPDX-License-Identifier: Apache-2.0
//
// A benchmark's report: JSON and back, a text table, Markdown, and the tables of documents.
#pragma once

#include <kiln/tools/bench.h>

#include <filesystem>
#include <string>

#include "cli/json.h"
#include "cli/terminal.h"

namespace kiln::cli {

Json to_json(const BenchReport& report);
/// Throws nlohmann's exceptions for other JSON.
BenchReport bench_report(const Json& json);
/// Throws UsageError that names the file, as for one that can't be read or is empty.
std::string file_content(const std::filesystem::path& file);
BenchReport load_bench_report(const std::filesystem::path& file);
/// The same JSON as a file, with one row per line.
std::string bench_record(const BenchReport& report);

std::string to_text(const BenchReport& report, const Terminal& terminal);
/// Tables for a document; below the page's own headings.
std::string to_markdown(const BenchReport& report);

/// Of the problems that were drawn.
std::string drawn_tables(const BenchReport& report);

/// The text of a document with the tables between its markers rewritten:
///   <!-- kiln bench: FILE VIEW [SUITE]... -->
///   <!-- end -->
/// FILE is a record, relative to the document's directory; VIEW is `asked` (requirements and results), `drawn` (the
/// same of problems that were drawn, and those on which Kiln is slow), `tables` (all
/// rows, of these suites), or `runs` (machines, versions, clocks and power). Throws UsageError with the document's
/// name and line.
std::string written_anew(const std::string& document, const std::filesystem::path& path);

}  // namespace kiln::cli
