// SPDX-License-Identifier: Apache-2.0
//
// The tools of all suites: the service, interleaved launches with a cold L2 cache, the ceilings of the
// device, the choice of variants, and comparators.
#pragma once

#include <kiln/error.h>
#include <kiln/run.h>
#include <kiln/timing.h>
#include <kiln/tools/bench.h>
#include <kiln/wisdom.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/chip_state.h"
#include "run/launch_timer.h"
#include "run/reference.h"

namespace kiln::bench {

class Cublas;
class TorchProcess;

/// One implementation of the work: queues its launches in the benchmark's stream.
using Launch = std::function<void()>;

/// A variant and how it was chosen.
struct Chosen {
    Variant variant;
    std::string origin;
};

/// Ceilings, in operations or bytes per microsecond; 0: not known.
struct Ceilings {
    double copy_bytes_per_us = 0;
    std::string copy_source;
    double matrix_flops_per_us = 0;
    std::string matrix_source;
    double fma_flops_per_us = 0;
};

/// A stop was requested; nothing more is measured.
class Stopped : public Error {
  public:
    Stopped() : Error("stopped") {}
};

/// The usual wisdom, unless options say without.
Wisdom wisdom_of(const BenchOptions& options);

/// One thread at a time.
class Benchmark {
  public:
    /// options must outlive it.
    explicit Benchmark(const BenchOptions& options);
    explicit Benchmark(BenchOptions&&) = delete;
    ~Benchmark();
    Benchmark(const Benchmark&) = delete;
    Benchmark& operator=(const Benchmark&) = delete;

    /// Called when a suite has one more row.
    void after_row(std::function<void()> call) { after_row_ = std::move(call); }

    const BenchOptions& options() const { return options_; }
    /// This run so far; versions are added when comparators are opened.
    const BenchRun& described() const { return run_; }
    void add_version(const std::string& of, const std::string& version) { run_.versions[of] = version; }
    /// nullopt: there is no GPU, or its state can't be read.
    std::optional<ChipState> chip_state() const { return monitor_.read(); }

    /// Begins a part of a suite. missing: receives the problems for which there is no time left; must stay valid
    /// until the next part.
    void begin_part(std::string name, std::vector<std::string>* missing);
    /// Whether this part has been begun.
    bool is_part(std::string_view part) const { return part == part_; }
    /// Whether to measure a problem: `part` has been begun, and the suite has no row of the problem yet, or one of an earlier
    /// run that failed.
    bool measures(const BenchSuite& suite, std::string_view part, std::string_view problem) const;
    /// The time left for the part; zero when it is over.
    std::chrono::milliseconds time_left() const;
    /// `limit`, but at most the time left plus a grace period in which running work can end.
    std::chrono::milliseconds at_most(std::chrono::seconds limit) const;
    bool quick() const { return options_.quick; }
    Service& service() { return service_; }
    const Stream& stream() const { return service_.stream(); }
    bool on_gpu() const { return service_.backend() != Backend::host; }
    bool on_cuda() const { return service_.backend() == Backend::cuda; }
    /// The service of the references.
    Service& host() { return references_.get(); }
    ReferenceService& references() { return references_; }

    /// The microseconds of each launch, a list per entry of `launches`. After untimed launches, until clocks have
    /// risen, the launches are interleaved: each with a cold cache and between two events, all queued before the
    /// first wait. rounds: 0: as many as take a fraction of a second.
    std::vector<std::vector<double>> interleaved_us(const std::vector<Launch>& contenders, int rounds = 0);

    /// Measured at the first call; an error is a failure of this suite.
    const Ceilings& ceilings(BenchSuite& suite);
    /// nullptr: not measured.
    const Ceilings* measured_ceilings() const { return ceilings_ ? &*ceilings_ : nullptr; }

    /// PyTorch in a separate process, started at the first call. nullptr, with a note in the suite, if it is missing or
    /// not requested.
    TorchProcess* torch(BenchSuite& suite);
    /// cuBLAS on this device; nullptr, with a note in the suite, if it is missing or not requested.
    Cublas* cublas(BenchSuite& suite);
    /// Whether this comparator is requested.
    bool wants(std::string_view comparator) const;
    /// Adds a note that a requested comparator is missing; a failure if it was requested by name.
    void missing(BenchSuite& suite, const std::string& comparator, const std::string& why) const;
    /// Why a comparator can't be measured, as far as is known in advance; empty: it can.
    std::string problem_of(std::string_view comparator);

    /// As applications have it: with the usual wisdom, unless options say without.
    const Chooser& chooser();
    /// The best variant of these templates for this problem by wisdom; without wisdom, by the model, of the first
    /// template that can compute it. Without overlap (PDL). Throws VariantError when no template can.
    Chosen choose(const std::vector<std::string>& templates, const Values& fixed, const Sizes& sizes);

    struct Wanted {
        std::vector<std::string> templates;
        Values fixed;
        Sizes sizes;
    };
    /// Builds the variants chosen for these, and the references of their outputs, in parallel into the disk
    /// cache.
    void prepare(const BenchSuite& suite, const std::vector<Wanted>& list);
    /// The same of these variants.
    void build(const std::vector<Variant>& variants);

    /// Reports what begins. Throws Stopped when a stop was requested.
    void begin(const BenchSuite& suite, const std::string& what) const;
    /// Adds the row that `measure` fills. An exception becomes a failure of the row, except for a stop. When the part's
    /// time is over, the problem is added to `missing` instead.
    void row(BenchSuite& suite, std::string problem, const std::function<void(BenchRow&)>& measure);
    /// Reports that this part does not measure a problem that belongs to it.
    void leave_out(std::string problem) const;
    /// Adds a row that is measured already, unless the suite has one of its problem.
    void add_row(BenchSuite& suite, BenchRow row);

  private:
    void measure_copy();
    void measure_matrix();
    void open_cublas();
    void open_torch();

    using Clock = std::chrono::steady_clock;

    const BenchOptions& options_;
    std::function<void()> after_row_;
    Clock::time_point began_ = Clock::now(), part_ends_ = Clock::time_point::max();
    std::string part_;
    std::vector<std::string>* missing_ = nullptr;
    Service service_;
    ChipMonitor monitor_;
    BenchRun run_;
    ReferenceService references_;
    std::optional<LaunchTimer> timer_;  ///< cold L2
    std::optional<Ceilings> ceilings_;
    std::unique_ptr<Cublas> cublas_;
    bool cublas_tried_ = false;
    std::string cublas_problem_;
    std::unique_ptr<TorchProcess> torch_;
    std::optional<Chooser> chooser_;
};

/// The variant with programmatic dependent launch switched on or off; unchanged if its template has no such parameter.
/// When timed after other queued work, a variant with PDL would have a head start over comparators.
Variant with_overlap(const Variant& variant, bool overlap);

/// Runs something with a comparator. An exception becomes a note in the row, since Kiln did not fail. Returns
/// whether it succeeded.
bool attempt(BenchRow& row, const std::string& with, const std::function<void()>& body);

/// A comparison with a time, from which the ratio is computed.
BenchComparison compared(const BenchRow& row, std::string with, std::string detail,
                         std::vector<double> samples, std::optional<double> must, std::optional<double> aim);
/// The fraction of a ceiling: `least_us` is the lower bound of the time.
BenchComparison share_of(const BenchRow& row, std::string with, double least_us,
                         std::optional<double> must = {}, std::optional<double> aim = {});
/// The fraction of the roofline: of the ceiling of bytes or operations, whichever takes longer; nullopt:
/// ceilings are not known. matrix: operations on the matrix cores, else FP32 multiply-adds.
std::optional<BenchComparison> roof_share(const BenchRow& row, const Ceilings& ceilings,
                                          const Problem& problem, bool matrix);

/// "4096 x 7168 x 2048"
std::string product_text(std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace kiln::bench
