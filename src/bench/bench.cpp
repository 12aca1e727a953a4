// SPDX-License-Identifier: Apache-2.0
//
// The table of suites, and what is made of their rows.
#include <kiln/bench.h>
#include <kiln/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/stopwatch.h"
#include "base/words.h"
#include "bench/suites.h"

namespace kiln {
namespace {

struct Suite {
    BenchSuiteName name;
    void (*run)(bench::Workbench&, BenchSuite&);
    std::array<std::string_view, 2> comparators;  ///< of kComparators
};

constexpr std::array kSuites = {
    Suite{
        {"jit", "building at run time: cold, from a warm disk, from memory; launching"}, bench::run_jit, {}},
    Suite{{"gemm-f16", "FP16 and BF16 products with FP32 sums, against cublasLt's best of 8 heuristics"},
          bench::run_gemm_half,
          {"cublas"}},
    Suite{{"gemm-f32", "FP32 products without TF32, against cublasSgemm in pedantic mode"},
          bench::run_gemm_float,
          {"cublas"}},
    Suite{{"gemm-mma", "FP16 products by mma.sync, the instructions of sm_80, against cublasLt"},
          bench::run_gemm_mma,
          {"cublas"}},
    Suite{{"skinny", "FP16 products of 1 to 16 rows with large weights, against cublasLt"},
          bench::run_skinny,
          {"cublas"}},
    Suite{{"attention", "FP16 attention of whole sequences, against cuDNN and FlashAttention in PyTorch"},
          bench::run_attention,
          {"torch"}},
    Suite{{"decode", "attention of one new token per sequence over a paged cache, against a copy"},
          bench::run_decode,
          {}},
    Suite{{"memory", "transpose, sums, histogram, layer norm, softmax, against a copy, CUB and PyTorch"},
          bench::run_memory,
          {"cub", "torch"}},
    Suite{{"graphs", "small products and the kernels of a decode layer, as one graph and one by one"},
          bench::run_graphs,
          {"cublas"}},
    Suite{{"host", "products on one thread of the host backend, against OpenBLAS"},
          bench::run_host,
          {"openblas"}},
};

constexpr auto kNames = [] {
    std::array<BenchSuiteName, kSuites.size()> names;
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = kSuites[i].name;
    return names;
}();

constexpr std::array<std::string_view, 4> kComparators = {"cublas", "cub", "torch", "openblas"};

/// Throws UsageError for a name that is none of these.
template <class Names>
void check_name(const std::string& name, const Names& names, const std::string& what) {
    std::vector<std::string> known;
    for (const std::string_view one : names) known.emplace_back(one);
    if (std::ranges::find(known, name) != known.end()) return;
    throw UsageError("there is no " + what + " '" + name + "'; there are " + join(known) +
                     did_you_mean(name, known));
}

std::string figure(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    return text;
}

/// Throws UsageError for a comparator that was asked for by name and that a suite would miss, before hours are spent.
void check_comparators(bench::Workbench& workbench, const std::vector<const Suite*>& suites) {
    const std::optional<std::vector<std::string>>& named = workbench.options().compare;
    if (!named) return;
    for (const std::string& name : *named) {
        const bool used = std::ranges::any_of(suites, [&](const Suite* suite) {
            return std::ranges::find(suite->comparators, name) != suite->comparators.end();
        });
        const std::string problem = used ? workbench.problem_of(name) : "";
        if (!problem.empty()) throw UsageError("--compare " + name + ": " + problem);
    }
}

void set_ceilings(BenchReport& report, const bench::Ceilings& ceilings) {
    report.copy_gbps = ceilings.copy_bytes_per_us / 1000;
    report.copy_source = ceilings.copy_source;
    report.matrix_tflops = ceilings.matrix_flops_per_us / 1e6;
    report.matrix_source = ceilings.matrix_source;
    report.fma_tflops = ceilings.fma_flops_per_us / 1e6;
}

bool below(double ratio, const std::optional<double>& least) { return least && ratio < *least; }

}  // namespace

BenchSpread spread_of(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    const std::size_t count = samples.size();
    const double median = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
    return {samples.front(), median, samples.back(), static_cast<int>(count)};
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
        return suite.failures.empty() && std::ranges::all_of(suite.rows, [](const BenchRow& row) {
                   const bool others_right = std::ranges::none_of(
                       row.comparisons, [](const BenchComparison& one) { return one.verified == false; });
                   return row.failures.empty() && row.verified != false && others_right;
               });
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
        for (const BenchMean& mean : suite.means)
            if (below(mean.ratio, mean.must))
                list.push_back(suite.name + ": geometric mean " + figure(mean.ratio) + " of " + mean.with +
                               ", and it must be " + figure(*mean.must));
    }
    return list;
}

std::span<const BenchSuiteName> bench_suites() { return kNames; }

namespace bench {

void add_mean(BenchSuite& suite, const std::string& with, std::optional<double> must,
              std::optional<double> aim) {
    BenchMean mean{with, 0, INFINITY, 0, must, aim};
    double logarithms = 0;
    for (const BenchRow& row : suite.rows)
        for (const BenchComparison& one : row.comparisons) {
            if (one.with != with || !(one.ratio > 0)) continue;
            logarithms += std::log(one.ratio);
            mean.least = std::min(mean.least, one.ratio);
            ++mean.rows;
        }
    if (mean.rows == 0) return;
    mean.ratio = std::exp(logarithms / mean.rows);
    suite.means.push_back(std::move(mean));
}

}  // namespace bench

BenchReport run_bench(const BenchOptions& options) {
    std::vector<const Suite*> chosen;
    std::vector<std::string_view> names;
    for (const Suite& suite : kSuites) names.push_back(suite.name.name);
    for (const std::string& name : options.suites) {
        check_name(name, names, "suite");
        for (const Suite& suite : kSuites)
            if (suite.name.name == name && std::ranges::find(chosen, &suite) == chosen.end())
                chosen.push_back(&suite);
    }
    if (chosen.empty())
        throw UsageError("name a suite to run; there are " + join({names.begin(), names.end()}));
    if (options.compare)
        for (const std::string& name : *options.compare) check_name(name, kComparators, "comparator");

    BenchReport report;
    Stopwatch watch;
    const auto bring_up_to_date = [&](const bench::Workbench& workbench) {
        report.suites.back().seconds = watch.elapsed_ms() / 1000;
        if (workbench.measured_ceilings() != nullptr) set_ceilings(report, *workbench.measured_ceilings());
    };
    bench::Workbench workbench(options, [&] {
        bring_up_to_date(workbench);
        if (options.on_row) options.on_row(report);
    });
    const DeviceInfo& device = workbench.service().device().info();
    report.backend = device.backend;
    report.device = device.name;
    report.arch = workbench.service().target().arch;
    report.driver = device.driver;
    try {
        check_comparators(workbench, chosen);
        for (const Suite* const suite : chosen) {
            if (options.stop.stop_requested()) throw bench::Stopped();
            watch = Stopwatch();
            BenchSuite& result = report.suites.emplace_back();
            result.name = suite->name.name;
            result.title = suite->name.title;
            try {
                suite->run(workbench, result);
            } catch (const bench::Stopped&) {
                throw;
            } catch (const std::exception& error) {
                if (options.stop.stop_requested()) throw bench::Stopped();
                result.failures.emplace_back(error.what());
            }
            bring_up_to_date(workbench);
        }
    } catch (const bench::Stopped&) {
        report.interrupted = true;
        if (!report.suites.empty()) bring_up_to_date(workbench);
    }
    return report;
}

}  // namespace kiln
