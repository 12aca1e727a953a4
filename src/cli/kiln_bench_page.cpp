// SPDX-License-Identifier: Apache-2.0
//
// Tables in Markdown, from recorded measurements.
#include <kiln/error.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>

#include "cli/kiln_bench_lines.h"
#include "cli/kiln_bench_report.h"
#include "cli/option_values.h"
#include "cli/output_file.h"
#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

constexpr std::string_view kBegin = "<!-- kiln bench: ", kBeginEnd = " -->", kEnd = "<!-- end -->";

std::string joined(const std::vector<std::string>& words, const char* separator) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
    return text;
}

/// The lines of a row; the first comparison is on the line of Kiln's own values.
std::vector<BenchLine> joined_lines(const BenchRow& row) {
    std::vector<BenchLine> lines = bench_lines(row);
    if (lines.size() > 1 && lines[0].limits.empty()) {
        const BenchLine own = lines[0];
        lines.erase(lines.begin());
        BenchLine& joined = lines[0];
        joined.problem = own.problem;
        joined.median = own.median;
        joined.spread = own.spread;
        joined.rate = own.rate;
        if (own.result == "WRONG" || joined.result == "WRONG") joined.verdict = "WRONG";
    }
    return lines;
}

/// The name of the better one of several: "PyTorch: torch.compile".
std::string with_text(const BenchLine& line) {
    const bool is_joined = line.with == "cuBLAS" || line.with == "PyTorch";
    const std::string which = line.detail.substr(0, line.detail.find(','));
    return is_joined && !which.empty() ? line.with + ": " + which : line.with;
}

std::string suite_tables(const BenchSuite& suite) {
    std::string title = suite.title;
    if (!title.empty()) title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
    std::string text = "### " + suite.name + "\n\n" + title + ".\n\n";
    if (!suite.rows.empty()) {
        text += markdown_row({"problem", "Kiln", "min to max", "throughput", "against", "median",
                              "min to max", "ratio", "must / aim", "verdict"});
        text += "| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- |\n";
    }
    for (const BenchRow& row : suite.rows)
        for (const BenchLine& one : joined_lines(row))
            text += markdown_row({one.problem, one.median, one.spread, one.rate, with_text(one),
                                  one.with_median, one.with_spread, one.ratio, one.limits, one.verdict});
    text += "\n";
    for (const BenchRow& row : suite.rows)
        for (const std::string& failure : row.failures)
            text += "- failed: " + row.problem + ": " + failure + "\n";
    for (const std::string& failure : suite.failures) text += "- failed: " + failure + "\n";
    for (const BenchMean& mean : suite.means) text += "- " + mean_text(mean) + "\n";
    for (const BenchRow& row : suite.rows)
        for (const std::string& note : row.notes) text += "- " + row.problem + ": " + note + "\n";
    for (const std::string& note : suite.notes) text += "- " + note + "\n";
    for (const auto& [variant, problems] : variants_of(suite))
        text += "- `" + variant + "`: " + problems + "\n";
    return text;
}

/// The requirements on a suite's rows against one comparator, and the results.
struct SuiteRequirement {
    std::set<std::string> limits;  ///< of rows
    int rows = 0, missed = 0, below_aim = 0;
    std::string least_problem;
    double least = 0;
};

std::string counted_verdict(const SuiteRequirement& asked, const std::string& of_mean) {
    std::string text;
    const auto add = [&](const std::string& words) { text += (text.empty() ? "" : "; ") + words; };
    if (!of_mean.empty()) add("mean " + of_mean);
    if (asked.limits.empty()) return text;
    if (asked.missed > 0) add(formatted("MISSED in {} of {} rows", asked.missed, asked.rows));
    if (asked.below_aim > 0) add(formatted("below aim in {} of {} rows", asked.below_aim, asked.rows));
    if (asked.missed + asked.below_aim == 0) add("met in all rows");
    return text;
}

bool is_drawn(const BenchSuite& suite) {
    const auto known = std::ranges::find(bench_suites(), suite.name, &BenchSuiteName::name);
    return known != bench_suites().end() && known->is_drawn;
}

std::string asked_table(const BenchReport& report) {
    const bool quick = std::ranges::any_of(report.runs, &BenchRun::quick);
    std::string text = quick ? "Short runs (`--quick`): their values are only a hint.\n\n" : "";
    text += markdown_row({"suite", "against", "must / aim of a row", "must / aim of the mean",
                          "geometric mean", "least", "verdict"}) +
            "| --- | --- | ---: | ---: | ---: | ---: | --- |\n";
    for (const BenchSuite& suite : report.suites) {
        if (is_drawn(suite)) continue;
        std::vector<std::string> names;
        std::map<std::string, SuiteRequirement> by_name;
        for (const BenchRow& row : suite.rows) {
            for (const BenchComparison& one : row.comparisons) {
                if (std::ranges::find(names, one.with) == names.end()) names.push_back(one.with);
                SuiteRequirement& asked = by_name[one.with];
                if (asked.least_problem.empty() || one.ratio < asked.least) {
                    asked.least = one.ratio;
                    asked.least_problem = row.problem;
                }
                if (!one.must && !one.aim) continue;
                asked.limits.insert(limits_text(one.must, one.aim));
                ++asked.rows;
                const std::string verdict = verdict_text(one.ratio, one.must, one.aim);
                asked.missed += verdict == "MISSED";
                asked.below_aim += verdict == "below aim";
            }
        }
        for (const std::string& name : names) {
            const SuiteRequirement& asked = by_name[name];
            const auto mean = std::ranges::find(suite.means, name, &BenchMean::with);
            const bool has_mean = mean != suite.means.end();
            const std::string mean_limits = has_mean ? limits_text(mean->must, mean->aim) : "";
            if (asked.limits.empty() && mean_limits.empty()) continue;
            const std::string of_mean = has_mean ? verdict_text(mean->ratio, mean->must, mean->aim) : "";
            text += markdown_row({suite.name, name, joined({asked.limits.begin(), asked.limits.end()}, "; "),
                                  mean_limits, has_mean ? rounded(mean->ratio, 3) : "",
                                  rounded(asked.least, 3) + " (" + asked.least_problem + ")",
                                  counted_verdict(asked, of_mean)});
        }
        for (const BenchRow& row : suite.rows) {
            if (!row.kiln || (!row.most_must && !row.most_aim)) continue;
            const BenchLine line = bench_lines(row).front();
            text += markdown_row(
                {suite.name, row.problem, line.limits + " " + row.unit, "", "", line.median, line.verdict});
        }
    }
    return text;
}

std::string chip_text(const std::optional<ChipState>& chip) {
    if (!chip) return "not read";
    return formatted("{}, {} MHz, {:.0f} W, {} C", chip->sm_mhz, chip->memory_mhz, chip->watts,
                     chip->celsius);
}

std::string runs_tables(const BenchReport& report) {
    std::string text = markdown_row({"run", "machine", "device, driver", "versions", "ceilings"}) +
                       "| --- | --- | --- | --- | --- |\n";
    for (const BenchRun& run : report.runs) {
        std::vector<std::string> versions;
        for (const auto& [of, version] : run.versions) versions.push_back(of + " " + version);
        text += markdown_row({run.id + (run.quick ? " (--quick)" : ""), run.machine,
                              run.device + " (" + run.arch + "), " + run.driver, joined(versions, ", "),
                              ceilings_text(run.ceilings)});
    }
    text += "\n" +
            markdown_row(
                {"part", "run", "seconds", "SM clock, memory clock, power, temperature before", "after"}) +
            "| --- | --- | ---: | --- | --- |\n";
    for (const BenchPart& part : report.parts)
        text += markdown_row(
            {part.name, part.run, rounded(part.seconds, 3), chip_text(part.before), chip_text(part.after)});
    const std::vector<std::string> missing = report.missing();
    if (!missing.empty()) {
        text += "\nNot measured:\n\n";
        for (const std::string& one : missing) text += "- " + one + "\n";
    }
    return text;
}

std::string tables_of(const BenchReport& report, const std::vector<std::string>& suites) {
    std::string text;
    for (const BenchSuite& suite : report.suites)
        if (suites.empty() || std::ranges::find(suites, suite.name) != suites.end())
            text += (text.empty() ? "" : "\n") + suite_tables(suite);
    return text.empty() ? "Not measured.\n" : text;
}

/// The text of an opening marker: FILE VIEW [SUITE]...
std::string view_text(const std::string& marker, const std::filesystem::path& directory) {
    std::istringstream stream(marker);
    std::string file, view;
    stream >> file >> view;
    std::vector<std::string> suites, known;
    for (const BenchSuiteName& suite : bench_suites()) known.emplace_back(suite.name);
    for (std::string word; stream >> word; suites.push_back(word))
        if (std::ranges::find(known, word) == known.end())
            throw UsageError("there is no suite '" + word + "'; there are " + joined(known, ", "));
    if (view != "asked" && view != "drawn" && view != "tables" && view != "runs")
        throw UsageError("'" + view + "' is not one of the views asked, drawn, tables and runs");
    if (!std::filesystem::exists(status_of(directory / file)))
        throw UsageError("there is no record " + (directory / file).string() +
                         ", which the marker names; records are made by 'kiln bench --json'");
    const BenchReport report = load_bench_report(directory / file);
    if (view == "asked") return asked_table(report);
    if (view == "drawn") return drawn_tables(report);
    if (view == "tables") return tables_of(report, suites);
    return runs_tables(report);
}

}  // namespace

std::string to_markdown(const BenchReport& report) {
    std::string text = report.device + " (" + report.arch + ")";
    for (const BenchRun& run : report.runs) {
        text += ", " + run.driver;
        if (const std::string ceilings = ceilings_text(run.ceilings); !ceilings.empty())
            text += ". Ceilings: " + ceilings;
    }
    text += ".\n";
    for (const BenchSuite& suite : report.suites) text += "\n" + suite_tables(suite);
    if (report.interrupted) text += std::string("\n") + kInterrupted + "\n";
    return text;
}

std::string written_anew(const std::string& document, const std::filesystem::path& path) {
    std::istringstream lines(document);
    std::string text, marker;
    int number = 0, opened = 0;
    bool any = false;
    if (const std::size_t crlf = document.find("\r\n"); crlf != document.npos)
        throw UsageError(formatted(
            "{}:{}: the line ends with a carriage return and a line feed; a page has line "
            "feeds alone",
            path.string(),
            std::count(document.begin(), document.begin() + static_cast<std::ptrdiff_t>(crlf), '\n') + 1));
    for (std::string line; std::getline(lines, line);) {
        ++number;
        try {
            if (line.starts_with(kBegin) && line.ends_with(kBeginEnd)) {
                if (opened != 0) throw UsageError(formatted("the tables of line {} have no end", opened));
                opened = number;
                any = true;
                marker = line.substr(kBegin.size(), line.size() - kBegin.size() - kBeginEnd.size());
                text += line + "\n\n" + view_text(marker, path.parent_path()) + "\n";
                continue;
            }
        } catch (const UsageError& error) {
            throw UsageError(formatted("{}:{}: {}", path.string(), number, error.what()));
        }
        if (line == kEnd) opened = 0;
        if (opened == 0) text += line + "\n";
    }
    if (opened != 0)
        throw UsageError(formatted("{}:{}: the tables have no end, '{}'", path.string(), opened, kEnd));
    if (!any)
        throw UsageError(
            formatted("{}: no line is a marker such as '{}FILE asked{}', behind which tables stand",
                      path.string(), kBegin, kBeginEnd));
    return text;
}

}  // namespace kiln::cli
