// SPDX-License-Identifier: Apache-2.0
//
// The text of a benchmark's row: the same for tables of text and of Markdown. Each line is a comparison; the
// first line of a problem names the problem.
#pragma once

#include <kiln/tools/bench.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln::cli {

struct BenchLine {
    std::string problem, median, spread, rate, with, with_median, with_spread, ratio, limits, verdict, result,
        detail;
};

std::vector<BenchLine> bench_lines(const BenchRow& row);
/// A row of a Markdown table.
std::string markdown_row(const std::vector<std::string>& words);
std::string mean_text(const BenchMean& mean);
/// "copy 4200 GB/s (the driver's copy)"; empty: nothing was measured.
std::string ceilings_text(const BenchCeilings& ceilings);
/// "1.20 / 1.90": the requirement, and the aim.
std::string limits_text(const std::optional<double>& must, const std::optional<double>& aim);
/// "met", "below aim" (the requirement is met), "MISSED"; empty: there is no requirement.
std::string verdict_text(double ratio, const std::optional<double>& must, const std::optional<double>& aim);
/// The variants of a suite, each once, with the problems that they were chosen for.
std::vector<std::pair<std::string, std::string>> variants_of(const BenchSuite& suite);
/// "12.34", "0.8821", "12340": this many digits, no exponent.
std::string rounded(double value, int digits = 4);

constexpr const char* kInterrupted = "Interrupted: the rest was not measured.";

}  // namespace kiln::cli
