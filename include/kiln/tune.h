// SPDX-License-Identifier: Apache-2.0
//
// The tuner: times variants of templates on the device for given problems and finds the fastest that are right.
// What it finds is wisdom (kiln/wisdom.h). It measures one device; spreading the work is by shards.
#pragma once

#include <kiln/service.h>
#include <kiln/template.h>
#include <kiln/version.h>
#include <kiln/wisdom.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// How far the tuner has come.
struct TuneProgress {
    std::size_t shape = 0;    ///< from 0
    std::size_t shapes = 0;   ///< how many there are
    std::string_view phase;   ///< "compiling and timing", "comparing", "verifying"
    std::size_t done = 0;     ///< candidates of this shape that are timed, wrong or failed
    std::size_t total = 0;    ///< that there will be, as far as is known
    std::size_t failed = 0;   ///< of them wrong, or not to be built
    double best_ms = 0;       ///< 0: none yet
    double seconds_left = 0;  ///< of the budget
};

struct TunedShape;

/// What is tuned, and for how long.
struct TuneOptions {
    Values fixed;               ///< values that every variant must have
    std::vector<Sizes> shapes;  ///< sizes that are not given have their defaults; none: one shape of defaults
    bool test_sizes = false;    ///< those defaults are the small ones of tests
    /// For all shapes together; it begins when the references are compiled. A launch, a compile and a check that have begun
    /// are waited for. Not NaN, and up to 1e9.
    double budget_seconds = 60;
    /// Candidates are distributed over `shards` tuners; each works on every shards-th of the order of the model.
    std::uint64_t shard = 0;   ///< which of them this one is
    std::uint64_t shards = 1;  ///< how many there are
    std::optional<bool>
        cold_l2;        ///< push the inputs out of the cache before each timed launch; not set: on a GPU
    int finalists = 6;  ///< candidates that are compared at length at the end; 1 to 10^6
    /// Where what is measured is noted as it comes; empty: nowhere.
    std::filesystem::path journal;
    /// Candidates in the journal are not compiled and timed again, but for those that are among the best. Without
    /// it a journal that is there is replaced.
    bool resume = false;
    std::uint64_t seed = 1;  ///< of the inputs
    std::stop_token stop;    ///< ends the search; what is found counts
    /// Called from the calling thread, often.
    std::function<void(const TuneProgress&)> on_progress;
    /// Called from the calling thread after each shape.
    std::function<void(const TunedShape&)> on_shape;
};

/// A variant that can't win, and why.
struct TuneFailure {
    std::string variant;  ///< Variant::text()
    std::string reason;   ///< a sentence
    bool wrong = false;   ///< its results; else it could not be built or launched
};

/// What was found for one shape.
struct TunedShape {
    Sizes sizes;                        ///< all of the first template's
    std::vector<WisdomEntry> best;      ///< the fastest first, one per template
    std::vector<std::string> left_out;  ///< templates that can't take these sizes: why, a sentence each
    std::uint64_t legal = 0;            ///< variants of the other templates that the rules allow
    std::uint64_t fitting = 0;  ///< of them, those of which a block fits a multiprocessor; of this shard
    std::uint64_t timed = 0;    ///< now or, as the journal says, before
    std::uint64_t resumed = 0;  ///< of those, before
    bool complete = false;      ///< all that are fitting were tried; another run finds no more
    std::vector<TuneFailure> failures;  ///< in the order in which they were met
    std::optional<double> default_ms;   ///< of the first template's defaults, where they were timed
    double seconds = 0;                 ///< spent on it
};

/// What tune() found.
struct TuneReport {
    std::vector<TunedShape> shapes;  ///< in the order of TuneOptions::shapes
    Wisdom wisdom;                   ///< all that is best
    bool stopped = false;            ///< by TuneOptions::stop
    double seconds = 0;              ///< of the whole run
};

/// Tunes templates that compute the same (Chooser::alternatives) or not: candidates of all of them compete, and each
/// template's best is kept. The service needs a device; compiling is in its worker processes and goes into its
/// cache, which should be enabled. Every candidate's results are compared with the template's reference at about ten
/// thousand elements, and those of the winners once more by Runner::run; what is wrong can't win.
/// A kernel that hangs, ends the process or makes the device fault takes all work with it, but on the host where
/// ServiceOptions::isolate_host is set: the journal has its name, so that a resumed run leaves it out. A template that can't take a shape is left out of that shape.
/// Throws UsageError for templates that can't be run or have no reference, VariantError for values that a template
/// does not allow or sizes that none does, DeviceError after a fault, and UsageError for a journal that is of other
/// work or that another run writes.
TuneReport tune(Service& service, std::span<const Template> templates, const TuneOptions& options);

}  // namespace KILN_ABI
}  // namespace kiln
