// SPDX-License-Identifier: Apache-2.0
//
// Statistics and thresholds of rows, means, and merging reports.
#include "bench/results.h"

#include <kiln/error.h>
#include <kiln/timing.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "format/format.h"

namespace kiln {
namespace {

std::string figure(double value) { return formatted("{:.3g}", value); }

bool below(double ratio, const std::optional<double>& least) { return least && ratio < *least; }

/// Whether it says something of the kernel, even that its result is wrong.
bool is_measured(const BenchRow& row) { return row.failures.empty() || row.verified == false; }

/// "gemm-f16" of "gemm-f16.large"
std::string suite_of(const std::string& part) { return part.substr(0, part.find('.')); }

template <class T>
void add_new(std::vector<T>& list, const std::vector<T>& more) {
    for (const T& one : more)
        if (std::ranges::find(list, one) == list.end()) list.push_back(one);
}

const BenchRun* run_of(const BenchReport& report, const std::string& id) {
    const auto found = std::ranges::find(report.runs, id, &BenchRun::id);
    return found == report.runs.end() ? nullptr : &*found;
}

/// If both have a row of a problem: the one that was measured, else the later one.
void add_row(BenchReport& all, BenchSuite& suite, const BenchReport& from, const BenchRow& row) {
    const auto found = std::ranges::find(suite.rows, row.problem, &BenchRow::problem);
    if (found == suite.rows.end()) {
        suite.rows.push_back(row);
        return;
    }
    const BenchRun* const was = run_of(all, found->run);
    const BenchRun* const now = run_of(from, row.run);
    const bool later = was == nullptr || now == nullptr || was->date <= now->date;
    if (is_measured(*found) != is_measured(row) ? is_measured(row) : later) *found = row;
}

const BenchPart* part_of(const BenchReport& report, const BenchPart& like) {
    const auto found = std::ranges::find_if(
        report.parts, [&](const BenchPart& one) { return one.name == like.name && one.run == like.run; });
    return found == report.parts.end() ? nullptr : &*found;
}

/// How much longer the suite took with the parts and runs of `from` that `all` does not have yet.
double added_seconds(const BenchReport& all, const BenchReport& from, const BenchSuite& suite) {
    bool has_new =
        std::ranges::any_of(suite.rows, [&](const BenchRow& row) { return run_of(all, row.run) == nullptr; });
    double counted = 0;
    for (const BenchPart& part : from.parts) {
        if (suite_of(part.name) != suite.name) continue;
        const BenchPart* const known = part_of(all, part);
        has_new = has_new || known == nullptr;
        if (known != nullptr) counted += known->seconds;
    }
    return has_new ? std::max(0.0, suite.seconds - counted) : 0;
}

BenchSuite& same_suite(BenchReport& all, const BenchSuite& suite) {
    const auto found = std::ranges::find(all.suites, suite.name, &BenchSuite::name);
    BenchSuite& same = found != all.suites.end() ? *found : all.suites.emplace_back();
    same.name = suite.name;
    same.title = suite.title;
    return same;
}

void add_suite(BenchReport& all, const BenchReport& from, const BenchSuite& suite) {
    BenchSuite& to = same_suite(all, suite);
    for (const BenchRow& row : suite.rows) add_row(all, to, from, row);
    add_new(to.notes, suite.notes);
    add_new(to.failures, suite.failures);
    for (const BenchMean& mean : suite.means) bench::add_mean(to, mean);
}

}  // namespace

inline namespace KILN_ABI {

BenchSpread spread_of(std::vector<double> samples) {
    const TimeSummary of = summarise(std::move(samples));
    return {of.min_ms, of.median_ms, of.max_ms, of.iterations};
}

std::optional<bool> BenchRow::meets_must() const {
    std::optional<bool> met;
    for (const BenchComparison& one : comparisons)
        if (one.must) met = met.value_or(true) && !below(one.ratio, one.must);
    if (most_must && kiln) met = met.value_or(true) && kiln->median <= *most_must;
    return met;
}

std::optional<bool> BenchRow::meets_aim() const {
    std::optional<bool> met;
    for (const BenchComparison& one : comparisons)
        if (one.aim) met = met.value_or(true) && !below(one.ratio, one.aim);
    if (most_aim && kiln) met = met.value_or(true) && kiln->median <= *most_aim;
    return met;
}

bool BenchReport::pass() const {
    return std::ranges::all_of(suites, [](const BenchSuite& suite) {
        return suite.failures.empty() && std::ranges::all_of(suite.rows, bench::is_good);
    });
}

std::vector<std::string> BenchReport::missed() const {
    std::vector<std::string> list;
    for (const BenchSuite& suite : suites) {
        for (const BenchRow& row : suite.rows) {
            const std::string who = suite.name + ": " + row.problem + ": ";
            for (const BenchComparison& one : row.comparisons)
                if (below(one.ratio, one.must))
                    list.push_back(who + figure(one.ratio) + " of " + one.with + ", and it must be " +
                                   figure(*one.must));
            if (row.most_must && row.kiln && row.kiln->median > *row.most_must)
                list.push_back(who + figure(row.kiln->median) + " " + row.unit + ", and it must be " +
                               figure(*row.most_must) + " or less");
        }
        for (const BenchMean& mean : suite.means) {
            const std::string who = suite.name + (mean.part.empty() ? "" : "." + mean.part);
            if (below(mean.ratio, mean.must))
                list.push_back(who + ": geometric mean " + figure(mean.ratio) + " of " + mean.with +
                               ", and it must be " + figure(*mean.must));
            if (mean.percent > 0 && below(mean.low, mean.low_must))
                list.push_back(formatted("{}: percentile {} is {} of {}, and it must be {}", who,
                                         mean.percent, figure(mean.low), mean.with, figure(*mean.low_must)));
        }
    }
    return list;
}

std::vector<std::string> BenchReport::missing() const {
    std::vector<std::string> list;
    for (const BenchSuiteName& suite : bench_suites()) {
        if (suite.is_drawn && std::ranges::find(suites, suite.name, &BenchSuite::name) == suites.end())
            continue;
        for (const std::string_view part : suite.parts) {
            const std::string name = std::string(suite.name) + "." + std::string(part);
            bool is_there = false;
            for (const BenchPart& one : parts) {
                if (one.name != name) continue;
                is_there = true;
                for (const std::string& problem : one.missing)
                    if (const std::string text = name + ": " + problem;
                        std::ranges::find(list, text) == list.end())
                        list.push_back(text);
            }
            if (!is_there) list.push_back(name);
        }
    }
    return list;
}

BenchReport merged_bench(const std::vector<BenchReport>& reports) {
    BenchReport all;
    for (const BenchReport& report : reports) {
        if (&report == &reports.front()) {
            all.backend = report.backend;
            all.device = report.device;
            all.arch = report.arch;
        } else if (!report.runs.empty()) {
            bench::check_same_kind(all, report.device, report.arch, report.runs.front().quick);
        }
        for (const BenchSuite& suite : report.suites)
            same_suite(all, suite).seconds += added_seconds(all, report, suite);
        for (const BenchRun& run : report.runs)
            if (run_of(all, run.id) == nullptr) all.runs.push_back(run);
        for (const BenchPart& part : report.parts)
            if (part_of(all, part) == nullptr) all.parts.push_back(part);
        for (const BenchSuite& suite : report.suites) add_suite(all, report, suite);
        all.interrupted = all.interrupted || report.interrupted;
    }
    std::ranges::stable_sort(all.runs, {}, &BenchRun::date);
    std::ranges::stable_sort(all.suites, {}, [](const BenchSuite& suite) {
        return std::ranges::find(bench_suites(), suite.name, &BenchSuiteName::name) - bench_suites().begin();
    });
    bench::settle_missing(all);
    bench::drop_unused_runs(all);
    return all;
}

}  // namespace KILN_ABI

namespace bench {

double percentile(std::vector<double> values, double percent) {
    std::ranges::sort(values);
    const double place = percent / 100 * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const double beyond = place - static_cast<double>(below);
    const double next = values[std::min(below + 1, values.size() - 1)];
    return values[below] + beyond * (next - values[below]);
}

void add_mean(BenchSuite& suite, BenchMean like) {
    BenchMean mean = std::move(like);
    std::vector<double> ratios;
    double logarithms = 0;
    for (const BenchRow& row : suite.rows) {
        if (!mean.part.empty() && row.part != mean.part) continue;
        for (const BenchComparison& one : row.comparisons) {
            if (one.with != mean.with || !(one.ratio > 0)) continue;
            logarithms += std::log(one.ratio);
            ratios.push_back(one.ratio);
        }
    }
    if (ratios.empty()) return;
    mean.rows = static_cast<int>(ratios.size());
    mean.ratio = std::exp(logarithms / mean.rows);
    mean.least = *std::ranges::min_element(ratios);
    mean.low = mean.percent > 0 ? percentile(ratios, mean.percent) : 0;
    const auto found = std::ranges::find_if(
        suite.means, [&](const BenchMean& one) { return one.with == mean.with && one.part == mean.part; });
    if (found == suite.means.end())
        suite.means.push_back(std::move(mean));
    else
        *found = std::move(mean);
}

void add_mean(BenchSuite& suite, const std::string& with, std::optional<double> must,
              std::optional<double> aim) {
    BenchMean like;
    like.with = with;
    like.must = must;
    like.aim = aim;
    add_mean(suite, std::move(like));
}

void check_same_kind(const BenchReport& report, const std::string& device, const std::string& arch,
                     bool quick) {
    if (report.device != device)
        throw UsageError("measurements of " + report.device + " and of " + device +
                         " can't be in one report");
    if (!report.arch.empty() && !arch.empty() && report.arch != arch)
        throw UsageError("measurements of " + device + " with kernels for " + report.arch + " and for " +
                         arch + " can't be in one report");
    if (!report.runs.empty() && report.runs.front().quick != quick)
        throw UsageError("measurements with --quick and without it can't be in one report");
}

bool is_good(const BenchRow& row) {
    return row.failures.empty() && row.verified != false &&
           std::ranges::none_of(row.comparisons,
                                [](const BenchComparison& one) { return one.verified == false; });
}

void settle_missing(BenchReport& report) {
    for (BenchPart& part : report.parts) {
        const auto suite = std::ranges::find(report.suites, suite_of(part.name), &BenchSuite::name);
        if (suite == report.suites.end()) continue;
        std::erase_if(part.missing, [&](const std::string& problem) {
            const auto row = std::ranges::find(suite->rows, problem, &BenchRow::problem);
            return row != suite->rows.end() && (row->run == part.run || is_good(*row));
        });
    }
}

void drop_unused_runs(BenchReport& report) {
    std::set<std::string> used;
    for (const BenchPart& part : report.parts) used.insert(part.run);
    for (const BenchSuite& suite : report.suites)
        for (const BenchRow& row : suite.rows) used.insert(row.run);
    std::erase_if(report.runs, [&](const BenchRun& run) { return !used.contains(run.id); });
}

}  // namespace bench
}  // namespace kiln
