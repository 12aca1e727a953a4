// SPDX-License-Identifier: Apache-2.0
//
// The tournament of one problem: candidates are compiled in the background, checked and timed as they come, then the
// best are compared, ever fewer of them with ever more launches in turn, and the winners are verified once more.
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

class Tournament {
  public:
    using Clock = std::chrono::steady_clock;

    Tournament(Service& service, CandidateRunner& candidate_runner, Runner& runner, Journal& journal,
               const TuneOptions& options, const std::map<std::string, std::string>& digests,
               TuneProgress progress);

    /// Ends at about `deadline`.
    TunedShape run(std::span<const Space> spaces, const Sizes& sizes, Clock::time_point deadline);

  private:
    struct Entrant {
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
    void resume(Search& search);
    void search(Search& search, Clock::time_point from, Clock::time_point until);
    void enter(Search& search, std::size_t candidate, std::future<Compiled> future);
    /// What is done with a candidate; says what is wrong with its results, if anything.
    using Work = std::function<std::string()>;
    void attempt(Entrant& entrant, const Work& work);
    void watch(Entrant& entrant, const Work& work);
    bool device_works() const;
    std::string make_ready(Entrant& entrant);
    void time_first(Entrant& entrant, double best_ms);
    std::string verified(Entrant& entrant);
    void fail(Entrant& entrant, const std::string& reason, bool wrong);
    void compare(Clock::time_point until);
    void keep_best(std::size_t most);
    static bool is_ready(const Entrant& entrant) { return entrant.kernel && !entrant.failed; }
    std::vector<std::vector<double>> times_in_turn(int launches, Clock::time_point until);
    void launch_in_turn(int launches, Clock::time_point until);
    void verify();
    WisdomEntry entry(const Entrant& entrant) const;
    void tell(std::string_view phase);

    Service& service_;
    CandidateRunner& candidate_runner_;
    Runner& runner_;
    Journal& journal_;
    const TuneOptions& options_;
    const std::map<std::string, std::string>& digests_;
    TuneProgress progress_;
    std::vector<Candidate> candidates_;
    std::vector<Entrant> entrants_;
    TunedShape result_;
    std::size_t known_ = 0;     ///< candidates that the journal has
    std::size_t tried_ = 0;     ///< they, and those that were tried since
    std::string default_text_;  ///< of the first template's defaults for this problem
    Clock::time_point start_, deadline_;
};

}  // namespace kiln
