// SPDX-License-Identifier: Apache-2.0
//
// The search for the fastest variants of one problem. Candidates are compiled in the background, checked and timed
// as they become ready. Then the best are compared in rounds, each with fewer candidates and more interleaved
// launches, and the winners are verified again.
#pragma once

#include <kiln/run.h>
#include <kiln/tune.h>

#include <chrono>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "tune/candidate_runner.h"
#include "tune/candidates.h"
#include "tune/journal.h"

namespace kiln {

class VariantSearch {
  public:
    using Clock = std::chrono::steady_clock;

    VariantSearch(Service& service, CandidateRunner& candidate_runner, Runner& runner, Journal& journal,
                  const TuneOptions& options, const std::map<std::string, std::string>& digests,
                  TuneProgress progress);

    /// Begins with what the chooser considers for the problem, so that nothing slower is found than what an application gets
    /// without tuning. Ends at about `deadline`.
    TunedShape run(std::span<const VariantSpace> spaces, const Sizes& sizes, const Chooser& chooser,
                   Clock::time_point deadline);

  private:
    struct TimedVariant {
        std::size_t candidate;
        AnyKernel kernel;  ///< empty: known from the journal alone
        std::vector<double> times_ms;
        double median_ms = 0;
        std::string compiler;
        bool failed = false;
    };
    struct Pending {
        std::size_t candidate;
        std::future<Compiled> future;
    };

    bool stopping() const { return options_.stop.stop_requested(); }
    std::string key(const Candidate& candidate) const;
    void resume(CandidateQueue& search);
    void search(CandidateQueue& search, Clock::time_point from, Clock::time_point until);
    void enter(CandidateQueue& search, std::size_t candidate, std::future<Compiled> future);
    /// A step of a candidate; returns what is wrong with its results, or nothing.
    using Work = std::function<std::string()>;
    void attempt(TimedVariant& timed, const Work& work);
    void watch(TimedVariant& timed, const Work& work);
    bool device_works() const;
    std::string build_and_check(TimedVariant& timed);
    void time_first(TimedVariant& timed, double best_ms);
    std::string verified(TimedVariant& timed);
    /// also_later: in a run that is resumed from the journal, too.
    void fail(TimedVariant& timed, const std::string& reason, bool wrong, bool also_later = true);
    void compare(Clock::time_point until);
    void keep_best(std::size_t most);
    static bool is_ready(const TimedVariant& timed) { return timed.kernel && !timed.failed; }
    std::vector<std::vector<double>> interleaved_times(int launches, Clock::time_point until);
    void time_interleaved(int launches, Clock::time_point until);
    void verify();
    WisdomEntry entry(const TimedVariant& timed) const;
    void report_progress(std::string_view phase);

    Service& service_;
    CandidateRunner& candidate_runner_;
    Runner& runner_;
    Journal& journal_;
    const TuneOptions& options_;
    const std::map<std::string, std::string>& digests_;
    TuneProgress progress_;
    std::vector<Candidate> candidates_;
    std::vector<TimedVariant> timed_;
    TunedShape result_;
    std::size_t known_ = 0;     ///< candidates that the journal has
    std::size_t tried_ = 0;     ///< those, and the ones tried in this run
    std::string default_text_;  ///< of the first template's defaults for this problem
    Clock::time_point start_, deadline_;
};

}  // namespace kiln
