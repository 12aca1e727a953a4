// SPDX-License-Identifier: Apache-2.0
//
// What all suites measure with: the service, interleaved launches with a cold L2 cache, the ceilings of
// the device, and where variants come from.
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

/// A variant and where it comes from.
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

/// A stop was requested: nothing that follows is measured.
class Stopped : public Error {
  public:
    Stopped() : Error("stopped") {}
};

/// One thread at a time.
class Benchmark {
  public:
    /// options must outlive it.
    explicit Benchmark(const BenchOptions& options);
    ~Benchmark();
    Benchmark(const Benchmark&) = delete;
    Benchmark& operator=(const Benchmark&) = delete;

    /// Called when a suite has one more row.
    void after_row(std::function<void()> call) { after_row_ = std::move(call); }

    const BenchOptions& options() const { return options_; }
    /// This run as far as it is known: versions are added when something is opened.
    const BenchRun& described() const { return run_; }
    void add_version(const std::string& of, const std::string& version) { run_.versions[of] = version; }
    /// nullopt: not a GPU whose state can be read.
    std::optional<ChipState> chip_state() const { return monitor_.read(); }

    /// What follows is of this part of a suite. missing: where to name problems that its time does not suffice for;
    /// must stay until the next part.
    void begin_part(std::string name, std::vector<std::string>* missing);
    /// Whether a problem of this part is to be measured now: the part is the one that was begun, and the suite has no
    /// row of the problem.
    bool measures(const BenchSuite& suite, std::string_view part, std::string_view problem) const;
    /// Until the part has to end; zero when its time is up.
    std::chrono::milliseconds time_left() const;
    /// A number of seconds, but no more than is left, and a little, so that what is under way can end.
    std::chrono::milliseconds at_most(std::chrono::seconds limit) const;
    bool quick() const { return options_.quick; }
    Service& service() { return service_; }
    const Stream& stream() const { return service_.stream(); }
    bool on_gpu() const { return service_.backend() != Backend::host; }
    bool on_cuda() const { return service_.backend() == Backend::cuda; }
    /// The service of the references.
    Service& host() { return references_.get(); }
    ReferenceService& references() { return references_; }

    /// The microseconds of each launch, a list per contender. Untimed launches first, until clocks are up; then the
    /// contenders take turns, each launch behind a cold cache and between two events, all of it queued before
    /// it is waited for. rounds: 0: as many as take a fraction of a second.
    std::vector<std::vector<double>> interleaved_us(const std::vector<Launch>& contenders, int rounds = 0);

    /// Measured at the first call; what goes wrong then is a failure of this suite.
    const Ceilings& ceilings(BenchSuite& suite);
    /// nullptr: nobody asked for them.
    const Ceilings* measured_ceilings() const { return ceilings_ ? &*ceilings_ : nullptr; }

    /// PyTorch in a process of its own, started at the first call; nullptr where it is not there or not wanted, with the
    /// note that says so.
    TorchProcess* torch(BenchSuite& suite);
    /// cuBLAS on this device; nullptr where it is not there or not wanted, with the note that says so.
    Cublas* cublas(BenchSuite& suite);
    /// Whether this comparator is to be measured, where it can be.
    bool wants(std::string_view comparator) const;
    /// Notes that a wanted comparator is missing; where it was asked for by name, that is a failure.
    void missing(BenchSuite& suite, const std::string& comparator, const std::string& why) const;
    /// Why a comparator can't be measured, as far as can be known before it is; empty: it can.
    std::string problem_of(std::string_view comparator);

    /// Of these templates, as far as they are there, the variant for this problem by wisdom; where there is none, of
    /// the first that can compute it, by the model. Without overlap. Throws VariantError when none can.
    Chosen choose(const std::vector<std::string>& templates, const Values& fixed, const Sizes& sizes);

    struct Wanted {
        std::vector<std::string> templates;
        Values fixed;
        Sizes sizes;
    };
    /// Builds what is chosen for these, and the references of their outputs, in the background, into the disk cache.
    void prepare(const BenchSuite& suite, const std::vector<Wanted>& list);

    /// Tells what begins. Throws Stopped when a stop was requested.
    void begin(const BenchSuite& suite, const std::string& what) const;
    /// Adds the row that `measure` fills; what it throws becomes the row's failure, but for a stop. When the part's time
    /// is up, the problem is missing instead.
    void row(BenchSuite& suite, std::string problem, const std::function<void(BenchRow&)>& measure);
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

/// The variant that may, or may not, begin while the launch before it still runs; itself where that is not its choice.
/// Timed behind other work that is queued first, one that may would have a head start over the comparators.
Variant with_overlap(const Variant& variant, bool overlap);

/// Something with a comparator: what it throws is a note in the row, for it is not Kiln that fails. Gives whether it
/// went well.
bool attempt(BenchRow& row, const std::string& with, const std::function<void()>& body);

/// A comparison with a time: the ratio is made of it.
BenchComparison compared(const BenchRow& row, std::string with, std::string detail,
                         std::vector<double> samples, std::optional<double> must, std::optional<double> aim);
/// The share of a ceiling: `least_us` is the least time that it allows.
BenchComparison share_of(const BenchRow& row, std::string with, double least_us,
                         std::optional<double> must = {}, std::optional<double> aim = {});
/// The share of whichever of bytes and operations takes longer at the ceilings; nullopt: they are not known.
/// matrix: operations on the matrix cores, else FP32 multiply-adds.
std::optional<BenchComparison> roof_share(const BenchRow& row, const Ceilings& ceilings,
                                          const Problem& problem, bool matrix);

/// "4096 x 7168 x 2048"
std::string product_text(std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace kiln::bench
