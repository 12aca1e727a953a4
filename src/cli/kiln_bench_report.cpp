// SPDX-License-Identifier: Apache-2.0
//
// The report as a table for people.
#include "cli/kiln_bench_report.h"

#include "cli/kiln_bench_lines.h"
#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

const std::vector<std::string> kHeader = {"problem",    "Kiln",   "min to max", "throughput",
                                          "against",    "median", "min to max", "ratio",
                                          "must / aim", "",       "result",     ""};
const std::vector<std::size_t> kRight = {1, 2, 3, 5, 6, 7, 8};

std::vector<std::string> words_of(const BenchLine& line) {
    return {line.problem,     line.median, line.spread, line.rate,    line.with,   line.with_median,
            line.with_spread, line.ratio,  line.limits, line.verdict, line.result, line.detail};
}

}  // namespace

std::string to_text(const BenchReport& report, const Terminal& terminal) {
    std::string text = report.device + " (" + report.arch + ")\n";
    for (const BenchRun& run : report.runs)
        if (const std::string ceilings = ceilings_text(run.ceilings); !ceilings.empty())
            text += line("ceilings", ceilings + (report.runs.size() > 1 ? ", run " + run.id : ""));
    for (const BenchSuite& suite : report.suites) {
        std::vector<std::vector<std::string>> rows = {kHeader};
        for (const BenchRow& row : suite.rows)
            for (const BenchLine& one : bench_lines(row)) rows.push_back(words_of(one));
        text += "\n" + suite.name + ": " + suite.title + "\n";
        if (rows.size() > 1) text += table(rows, kRight);
        for (const BenchRow& row : suite.rows)
            for (const std::string& failure : row.failures)
                text += "  " + terminal.painted(Colour::red, "FAILED") + "  " + row.problem + ": " + failure +
                        "\n";
        for (const std::string& failure : suite.failures)
            text += "  " + terminal.painted(Colour::red, "FAILED") + "  " + failure + "\n";
        for (const auto& [variant, problems] : variants_of(suite))
            text += line("variant", variant + ": " + problems);
        for (const BenchMean& mean : suite.means) text += line("mean", mean_text(mean));
        for (const BenchRow& row : suite.rows)
            for (const std::string& note : row.notes) text += line("note", row.problem + ": " + note);
        for (const std::string& note : suite.notes) text += line("note", note);
        text += line("took", formatted("{:.1f} s", suite.seconds));
    }
    for (const BenchPart& part : report.parts)
        for (const std::string& problem : part.missing)
            text += line("left out", part.name + ": " + problem + ": its time was up");
    if (report.interrupted) text += std::string("\n") + kInterrupted + "\n";
    const std::vector<std::string> missed = report.missed();
    for (const std::string& one : missed) text += (&one == &missed.front() ? "\n" : "") + line("missed", one);
    return text;
}

}  // namespace kiln::cli
