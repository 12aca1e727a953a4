// SPDX-License-Identifier: Apache-2.0
//
// The table of suites and their parts, and how they are run.
#include <kiln/error.h>
#include <kiln/occupancy.h>
#include <kiln/tools/bench.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/number_range.h"
#include "base/stopwatch.h"
#include "base/words.h"
#include "bench/chip_state.h"
#include "bench/results.h"
#include "bench/suites.h"
#include "format/format.h"

namespace kiln {
namespace {

constexpr std::size_t kMostParts = 13;

struct Suite {
    std::string_view name, title;
    std::array<std::string_view, kMostParts> parts;  ///< each takes minutes; unused ones are empty
    void (*run)(bench::Benchmark&, BenchSuite&);     ///< calls Benchmark::measures() for its rows
    std::array<std::string_view, 3> comparators;     ///< of kComparators
    bool is_drawn = false;                           ///< BenchSuiteName::is_drawn

    constexpr std::size_t part_count() const {
        std::size_t count = 0;
        while (count < kMostParts && !parts[count].empty()) ++count;
        return count;
    }
};

constexpr std::array kSuites = {
    Suite{"jit",
          "building at run time: cold, from a warm disk, from memory; launching",
          {"starts", "calls"},
          bench::run_jit,
          {}},
    Suite{"gemm-f16",
          "FP16 and BF16 GEMM with FP32 accumulation, against cublasLt's best of 8 heuristics",
          {"small", "large", "odd"},
          bench::run_gemm_half,
          {"cublas"}},
    Suite{"gemm-f32",
          "FP32 GEMM without TF32, against the better of cublasSgemm and cublasLt's best of 8 heuristics",
          {"small", "large", "odd"},
          bench::run_gemm_float,
          {"cublas"}},
    Suite{"gemm-mma",
          "FP16 GEMM by mma.sync, the instructions of sm_80, against cublasLt",
          {"small", "large", "odd"},
          bench::run_gemm_mma,
          {"cublas"}},
    Suite{"skinny",
          "FP16 GEMM of 1 to 16 rows with large weights, against cublasLt",
          {"4096", "8192", "16384"},
          bench::run_skinny,
          {"cublas"}},
    Suite{"attention",
          "FP16 attention of whole sequences, against cuDNN and FlashAttention in PyTorch",
          {"head64", "head128"},
          bench::run_attention,
          {"torch"}},
    Suite{"decode",
          "decode attention over a paged KV cache, against a copy",
          {"batch16", "batch64", "batch128"},
          bench::run_decode,
          {}},
    Suite{"memory",
          "transpose, reductions, histogram, layer norm, softmax, against a copy, CUB and the better of "
          "PyTorch and "
          "torch.compile",
          {"transpose", "sums", "histogram", "layer-norm", "softmax"},
          bench::run_memory,
          {"cub", "torch"}},
    Suite{"graphs",
          "small GEMMs and the kernels of a decode layer, as one graph and one by one",
          {"products", "layers", "steps"},
          bench::run_graphs,
          {"cublas"}},
    Suite{"host",
          "GEMM on one thread of the host backend, against OpenBLAS",
          {"gemm"},
          bench::run_host,
          {"openblas"}},
    Suite{"unseen",
          "problems drawn at random from a seed; Kiln's chooser, as an application uses it, against each "
          "library's own choice",
          {"gemm-f16", "gemm-epilogue", "gemm-f32", "attention", "attention-packed", "decode", "softmax",
           "layer-norm", "rms-norm", "transpose", "reduction", "column-reduction", "histogram"},
          bench::run_unseen,
          {"cublas", "cub", "torch"},
          true},
};

constexpr auto kNames = [] {
    std::array<BenchSuiteName, kSuites.size()> names;
    for (std::size_t i = 0; i < names.size(); ++i)
        names[i] = {kSuites[i].name,
                    kSuites[i].title,
                    {kSuites[i].parts.data(), kSuites[i].part_count()},
                    kSuites[i].is_drawn};
    return names;
}();

constexpr std::array<std::string_view, 4> kComparators = {"cublas", "cub", "torch", "openblas"};

/// Throws UsageError for an unknown name.
template <class Names>
void check_name(const std::string& name, const Names& names, const std::string& what) {
    std::vector<std::string> known;
    for (const std::string_view one : names) known.emplace_back(one);
    if (std::ranges::find(known, name) != known.end()) return;
    throw UsageError("there is no " + what + " '" + name + "'; there are " + join(known) +
                     did_you_mean(name, known));
}

/// A requested part of a suite.
struct Chosen {
    const Suite* suite;
    std::string name;  ///< "gemm-f16.large"
};

/// In the order of the words, each once.
std::vector<Chosen> chosen_parts(const std::vector<std::string>& words) {
    std::vector<std::string> suites, parts;
    std::vector<Chosen> all;
    for (const Suite& suite : kSuites) {
        suites.emplace_back(suite.name);
        for (std::size_t i = 0; i < suite.part_count(); ++i) {
            parts.push_back(suites.back() + "." + std::string(suite.parts[i]));
            all.push_back({&suite, parts.back()});
        }
    }
    for (const std::string& word : words)
        word.find('.') == std::string::npos ? check_name(word, suites, "suite")
                                            : check_name(word, parts, "part of a suite");
    if (words.empty()) throw UsageError("name a suite to run; there are " + join(suites));
    std::vector<Chosen> chosen;
    for (const std::string& word : words)
        for (const Chosen& part : all)
            if ((word == part.suite->name || word == part.name) &&
                std::ranges::find(chosen, part.name, &Chosen::name) == chosen.end())
                chosen.push_back(part);
    return chosen;
}

/// Throws UsageError for a comparator that was requested by name and is missing, before anything is measured.
void check_comparators(bench::Benchmark& benchmark, const std::vector<Chosen>& parts) {
    const std::optional<std::vector<std::string>>& named = benchmark.options().compare;
    if (!named) return;
    for (const std::string& name : *named) {
        const bool used = std::ranges::any_of(parts, [&](const Chosen& part) {
            return std::ranges::find(part.suite->comparators, name) != part.suite->comparators.end();
        });
        const std::string problem = used ? benchmark.problem_of(name) : "";
        if (!problem.empty()) throw UsageError("--compare " + name + ": " + problem);
    }
}

BenchCeilings told(const bench::Ceilings& ceilings) {
    return {ceilings.copy_bytes_per_us / 1000, ceilings.copy_source, ceilings.matrix_flops_per_us / 1e6,
            ceilings.matrix_source, ceilings.fma_flops_per_us / 1e6};
}

BenchSuite& suite_of(BenchReport& report, const Suite& suite) {
    const auto found = std::ranges::find(report.suites, suite.name, &BenchSuite::name);
    BenchSuite& result = found != report.suites.end() ? *found : report.suites.emplace_back();
    result.name = suite.name;
    result.title = suite.title;
    return result;
}

/// Continues an earlier report, or begins a new one.
BenchReport begun(const BenchOptions& options, bench::Benchmark& benchmark) {
    BenchReport report;
    const DeviceInfo& device = benchmark.service().device().info();
    const std::string& arch = benchmark.service().target().arch;
    if (options.before) {
        report = *options.before;
        bench::check_same_kind(report, device.name, arch, options.quick);
    }
    report.backend = device.backend;
    report.device = device.name;
    report.arch = arch;
    report.interrupted = false;
    report.runs.push_back(benchmark.described());
    return report;
}

constexpr int kMostRounds = 100'000;

void check_drawing(const BenchOptions& options) {
    if (options.rounds) check_range("BenchOptions::rounds", *options.rounds, 1, kMostRounds);
    if (options.draws < 1)
        throw UsageError(formatted("{} problems can't be drawn; draw 1 or more", options.draws));
    check_shard(options.shard, options.shards);
    if (options.others < 0)
        throw UsageError(formatted("{} variants can't be timed next to the chosen one; ask for 0 or more",
                                   options.others));
}

/// device: empty, or a chip of the service's architecture.
void check_device(const Service& service, const std::string& device) {
    if (device.empty()) return;
    std::vector<std::string> known;
    for (const Chip& chip : chips())
        if (find_chip(service.target().arch, chip.name) == &chip) known.push_back(chip.name);
    check_name(device, known, "device of " + service.target().arch);
    if (service.has_device() && service.device().info().name != device)
        throw UsageError("variants for a " + device + " are chosen without the device that is here, a " +
                         service.device().info().name + ": name the architecture");
}

}  // namespace

inline namespace KILN_ABI {

std::span<const BenchSuiteName> bench_suites() { return kNames; }

BenchReport run_bench(const BenchOptions& options) {
    const std::vector<Chosen> chosen = chosen_parts(options.suites);
    if (options.compare)
        for (const std::string& name : *options.compare) check_name(name, kComparators, "comparator");

    check_drawing(options);
    bench::Benchmark benchmark(options);
    BenchReport report = begun(options, benchmark);
    Stopwatch watch;
    double before_seconds = 0;  // of the suite, until the part that is measured
    BenchSuite* suite = nullptr;
    std::size_t failures_before = 0;  // of the suite, the same
    // By their part, so that a later run knows which ones it has measured again; those of before stay until then.
    const auto name_new_failures = [&] {
        for (std::size_t i = failures_before; suite != nullptr && i < suite->failures.size(); ++i)
            suite->failures[i].insert(0, report.parts.back().name + ": ");
    };
    const auto bring_up_to_date = [&] {
        if (suite == nullptr) return;
        suite->seconds = before_seconds + watch.elapsed_ms() / 1000;
        report.parts.back().seconds = watch.elapsed_ms() / 1000;
        report.runs.back() = benchmark.described();
        if (benchmark.measured_ceilings() != nullptr)
            report.runs.back().ceilings = told(*benchmark.measured_ceilings());
    };
    benchmark.after_row([&] {
        bring_up_to_date();
        if (options.on_row) options.on_row(report);
    });
    try {
        check_comparators(benchmark, chosen);
        for (const Chosen& part : chosen) {
            if (options.stop.stop_requested()) throw bench::Stopped();
            suite = &suite_of(report, *part.suite);
            watch = Stopwatch();
            before_seconds = suite->seconds;
            failures_before = suite->failures.size();
            report.parts.push_back({part.name, benchmark.described().id, 0, {}, benchmark.chip_state(), {}});
            benchmark.begin_part(part.name.substr(part.name.find('.') + 1), &report.parts.back().missing);
            const bool had_entry =
                std::ranges::any_of(report.parts.begin(), report.parts.end() - 1,
                                    [&](const BenchPart& earlier) { return earlier.name == part.name; });
            try {
                part.suite->run(benchmark, *suite);
            } catch (const bench::Stopped&) {
                throw;
            } catch (const std::exception& error) {
                if (options.stop.stop_requested()) throw bench::Stopped();
                suite->failures.emplace_back(error.what());
            }
            const bool has_new_failures = suite->failures.size() > failures_before;
            name_new_failures();
            const auto earlier_end = suite->failures.begin() + static_cast<std::ptrdiff_t>(failures_before);
            suite->failures.erase(std::remove_if(suite->failures.begin(), earlier_end,
                                                 [&](const std::string& failure) {
                                                     return failure.starts_with(part.name + ": ");
                                                 }),
                                  earlier_end);
            failures_before = suite->failures.size();
            bring_up_to_date();
            report.parts.back().after = benchmark.chip_state();
            bench::settle_missing(report);
            const bool has_new_rows = std::ranges::any_of(suite->rows, [&](const BenchRow& row) {
                return row.run == benchmark.described().id && benchmark.is_part(row.part);
            });
            // Nothing was left to do.
            if (had_entry && !has_new_rows && report.parts.back().missing.empty() && !has_new_failures)
                report.parts.pop_back();
            if (options.on_row) options.on_row(report);
        }
    } catch (const bench::Stopped&) {
        report.interrupted = true;
        name_new_failures();
        bring_up_to_date();
    }
    bench::drop_unused_runs(report);
    return report;
}

std::vector<Variant> bench_variants(const Service& service, const BenchOptions& options,
                                    const std::string& device) {
    const std::vector<Chosen> chosen = chosen_parts(options.suites);
    for (const Chosen& part : chosen)
        if (!part.suite->is_drawn)
            throw UsageError("the variants of " + part.name +
                             " are chosen as it runs; those of parts of unseen are known before");
    check_drawing(options);
    check_device(service, device);
    const Chooser chooser(service, bench::wisdom_of(options), device);
    std::vector<Variant> variants;
    std::set<std::string> seen;
    for (const Chosen& part : chosen)
        for (Variant& variant :
             bench::unseen_variants(service, chooser, part.name.substr(part.name.find('.') + 1), options))
            if (seen.insert(variant.text()).second) variants.push_back(std::move(variant));
    return variants;
}

}  // namespace KILN_ABI
}  // namespace kiln
