// SPDX-License-Identifier: Apache-2.0
//
// Suites of measurements that compare Kiln with other libraries on the same device in the same run: interleaved
// launches with a cold L2 cache (except in the suites jit, graphs and host), random data, results of both sides verified.
// A comparator that is not installed is a note. `kiln bench` prints what this gives.
#pragma once

#include <kiln/service.h>
#include <kiln/version.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// Repeated measurements of one thing, in the unit of their row.
struct BenchSpread {
    double min = 0;     ///< the least
    double median = 0;  ///< of an even number the mean of the middle two
    double max = 0;     ///< the greatest
    int count = 0;      ///< how many there were
};
/// Of at least one sample.
BenchSpread spread_of(std::vector<double> samples);

/// What Kiln's figure is held to: a comparator's, or a ceiling.
struct BenchComparison {
    std::string with;                 ///< "cublasLt", "CUB", "cuDNN", "copy", ...
    std::string detail;               ///< "the best of 8 heuristics: number 3"; may be empty
    bool is_ceiling = false;          ///< `with` is a limit of the hardware, not another library
    std::optional<BenchSpread> time;  ///< of a ceiling: nullopt
    /// The comparator's median divided by Kiln's: above 1 Kiln is faster. Of a ceiling: the least time that it
    /// allows divided by Kiln's median, the share that is reached.
    double ratio = 0;
    std::optional<double> must;    ///< what the ratio has to reach
    std::optional<double> aim;     ///< what it should reach
    std::optional<bool> verified;  ///< the comparator's own result; nullopt: it has none
};

/// One problem, as Kiln and the others do it.
struct BenchRow {
    std::string problem;  ///< "half 4096 x 7168 x 2048"; a suite has one row of each
    std::string part;     ///< of its suite: "large"
    std::string run;      ///< which of BenchReport::runs measured it
    Sizes sizes;          ///< of the template that is measured; empty where that is not one
    double seconds = 0;   ///< what measuring it took, verifying included
    std::string variant;  ///< Variant::text(); empty where no single kernel is measured
    std::string origin;   ///< where the variant comes from: "wisdom", "nearest", "model"; "default"; or empty
    std::string unit;     ///< "us", "ns", "ms"
    std::optional<BenchSpread> kiln;           ///< in `unit`; nullopt: it failed
    std::optional<double> rate;                ///< from the median
    std::string rate_unit;                     ///< "TFLOP/s", "GB/s"
    std::optional<bool> verified;              ///< Kiln's result is right; nullopt: there is none to check
    std::optional<double> most_must;           ///< what Kiln's median has to stay within, in `unit`
    std::optional<double> most_aim;            ///< what it should stay within
    std::vector<BenchComparison> comparisons;  ///< with each comparator and ceiling
    std::vector<std::string> failures;         ///< wrong results, errors; sentences
    std::vector<std::string> notes;            ///< comparators that could not do this problem, and why

    /// Everything is within its `must`; nullopt: there is none.
    std::optional<bool> meets_must() const;
    /// The same for its `aim`.
    std::optional<bool> meets_aim() const;
};

/// The geometric mean of a suite's ratios to one comparator.
struct BenchMean {
    std::string with;            ///< BenchComparison::with
    double ratio = 0;            ///< their geometric mean
    double least = 0;            ///< the smallest of them
    int rows = 0;                ///< that have one
    std::optional<double> must;  ///< what the mean has to reach
    std::optional<double> aim;   ///< what it should reach
    // Of problems that are drawn, the mean is that of a part, and a low percentile counts as well.
    std::string part;                ///< whose rows these are; empty: all of the suite
    int percent = 0;                 ///< which percentile `low` is; 0: there is none
    double low = 0;                  ///< that percentile of the ratios
    std::optional<double> low_must;  ///< what it has to reach
    std::optional<double> low_aim;   ///< what it should reach
};

/// The rows of one suite.
struct BenchSuite {
    std::string name;                ///< "gemm-f16"
    std::string title;               ///< for people
    std::vector<BenchRow> rows;      ///< in the order of the suite
    std::vector<BenchMean> means;    ///< one per comparator
    std::vector<std::string> notes;  ///< comparators that are missing, and why
    /// What ended it before its last row, and what was asked for by name and is missing.
    std::vector<std::string> failures;
    double seconds = 0;  ///< that it took, in all runs
};

/// Clocks, power and temperature of a GPU at one moment.
struct ChipState {
    int sm_mhz = 0;      ///< clock of the multiprocessors
    int memory_mhz = 0;  ///< clock of the memory
    double watts = 0;    ///< drawn
    int celsius = 0;     ///< of the chip
};

/// What shares are taken of; 0: not measured.
struct BenchCeilings {
    double copy_gbps = 0;       ///< 1e9 bytes per second, read and written
    std::string copy_source;    ///< "kiln's copy" or "the driver's copy"
    double matrix_tflops = 0;   ///< 1e12 operations per second
    std::string matrix_source;  ///< "cublasLt at 8192 x 8192 x 4096" or "data sheet"
    double fma_tflops = 0;      ///< FP32; of the data sheet
};

/// One call of run_bench(), on one machine.
struct BenchRun {
    std::string id;                               ///< no two runs have the same
    std::string date;                             ///< when it began, in UTC: "2026-11-22T17:03:25Z"
    std::string machine;                          ///< "16 x Intel(R) Xeon(R) Platinum 8481C"
    std::string device;                           ///< its name
    std::string arch;                             ///< "sm_90a"
    std::string driver;                           ///< its version, for people
    bool quick = false;                           ///< BenchOptions::quick
    std::map<std::string, std::string> versions;  ///< of compiler and comparators, those that were opened
    BenchCeilings ceilings;                       ///< measured in this run, or of the data sheet
};

/// A part of a suite, as one run measured it.
struct BenchPart {
    std::string name;                  ///< "gemm-f16.large"
    std::string run;                   ///< BenchRun::id
    double seconds = 0;                ///< that it took
    std::vector<std::string> missing;  ///< problems that were not begun within its time
    std::optional<ChipState> before;   ///< nullopt: could not be read
    std::optional<ChipState> after;    ///< likewise
};

/// What run_bench() measured, or several runs of it.
struct BenchReport {
    Backend backend = Backend::host;  ///< that was measured
    std::string device;               ///< its name
    std::string arch;                 ///< "sm_90a"
    std::vector<BenchRun> runs;       ///< the oldest first
    std::vector<BenchPart> parts;     ///< as they were measured
    std::vector<BenchSuite> suites;   ///< in the order of bench_suites()
    bool interrupted = false;         ///< a stop was requested before the last row

    /// Nothing failed and every result is right.
    bool pass() const;
    /// Rows and means that miss their `must`: "SUITE: PROBLEM: ...".
    std::vector<std::string> missed() const;
    /// Parts that no run has measured, "gemm-f16.large", and problems that were left out, "gemm-f16.large: PROBLEM".
    std::vector<std::string> missing() const;
};

/// One report of several of one device: of a problem that several have a row of, that of the latest run that measured it,
/// even if its result was wrong; geometric means over all rows. Throws UsageError for another device or architecture, and for quick runs together with others.
BenchReport merged_bench(const std::vector<BenchReport>& reports);

/// A variant of a drawn problem, timed next to the one that was chosen.
struct BenchTimedVariant {
    std::string family;       ///< the part of the suite
    std::string fixed;        ///< values that say what is computed: "T=half TRANS_B=true"
    Sizes sizes;              ///< of the problem
    std::string variant;      ///< Variant::text()
    bool is_chosen = false;   ///< what an application gets
    double estimated_us = 0;  ///< by the chooser; 0: it did not consider it
    double us = 0;            ///< the median of its launches
};

/// What is measured, against what, and for how long.
struct BenchOptions {
    ServiceOptions service;           ///< backend, device, cache and template directories
    std::vector<std::string> suites;  ///< names of suites and of parts, "gemm-f16.large"; at least one
    /// Measured before: the report goes on from it, and rows that it has are not measured again, but for those that
    /// failed. These stay until then, and so do failures of a part.
    std::optional<BenchReport> before;
    /// When this has passed no further row of a part is begun; and of the whole run.
    std::chrono::seconds part_limit{480};
    std::optional<std::chrono::seconds> limit;  ///< of the whole run; not set: none
    /// "cublas", "cub", "torch", "openblas"; of these a missing one is an error. Not set: all that there are.
    std::optional<std::vector<std::string>> compare;
    std::uint64_t seed = 1;  ///< of problems that are drawn
    int draws = 32;          ///< how many of each family are drawn
    /// Drawn problems are distributed over `shards` runs, whose reports merge; each measures every shards-th of a family,
    /// from the shard-th on, and reports the others as missing.
    std::uint64_t shard = 0;
    std::uint64_t shards = 1;  ///< how many runs there are
    int others = 60;           ///< the most variants that are timed next to the chosen one of a drawn problem
    double tune_seconds = 0;   ///< that each drawn problem is tuned for as well; 0: none is
    bool no_wisdom = false;    ///< variants are chosen by the model alone
    /// Called with every variant of a drawn problem that was timed: family, values that are fixed, sizes, variant,
    /// the chooser's estimate and the median, in microseconds.
    std::function<void(const BenchTimedVariant&)> on_variant;
    bool quick = false;         ///< fewer and smaller problems, fewer launches; what it measures is a hint
    std::optional<int> rounds;  ///< timed launches of each contender
    std::stop_token stop;       ///< ends it between two rows; those before are in the report
    /// The program that runs run_bench_child() with what follows its arguments; empty: suites that need processes of
    /// their own give a note.
    std::vector<std::string> child;
    /// Told what begins ("gemm-f16", "half 1024 x 1024 x 1024").
    std::function<void(std::string_view suite, std::string_view what)> on_phase;
    /// Called after each row with all that was measured until then.
    std::function<void(const BenchReport& so_far)> on_row;
};

/// A suite's name and title, and the names of its parts.
struct BenchSuiteName {
    std::string_view name;                    ///< "gemm-f16"
    std::string_view title;                   ///< for people
    std::span<const std::string_view> parts;  ///< their names, "large"
    bool is_drawn = false;                    ///< its problems are drawn from BenchOptions::seed
};
/// All of them, in the order in which they are measured.
std::span<const BenchSuiteName> bench_suites();

/// Throws UsageError for a suite or comparator that there is not (naming the nearest), and for a comparator that
/// was asked for by name and that one of the suites lacks, before anything is measured; what Service's constructor
/// throws. What goes wrong with a row or a suite is in it, and the others go on.
BenchReport run_bench(const BenchOptions& options);

/// The variants that run_bench() with these options would build for the drawn problems of parts of "unseen", each once; not
/// those that tuning finds. The service, instead of options.service, needs no device: what is compiled ahead elsewhere, the run
/// need not build. device: the name of the one that it will run on; empty: the service's. Throws UsageError for other suites.
std::vector<Variant> bench_variants(const Service& service, const BenchOptions& options,
                                    const std::string& device = {});

/// What the processes do that run_bench() starts. Prints its figures; returns the exit status. Throws UsageError.
int run_bench_child(std::span<const std::string> arguments);

/// A picture of a suite's ratios, an SVG file.
std::string bench_picture(const BenchReport& report, const BenchSuite& suite);

}  // namespace KILN_ABI
}  // namespace kiln
