// SPDX-License-Identifier: Apache-2.0
//
// Of the budget the search takes seven tenths; compiles under way at its end have another tenth to be done. What
// comes then takes little on a GPU, and on the host what there is.
#include "tune/tournament.h"

#include <kiln/error.h>

#include <algorithm>
#include <limits>
#include <set>
#include <thread>

#include "base/config.h"
#include "run/isolated.h"
#include "tune/wisdom_line.h"

namespace kiln {
namespace {

constexpr double kSearchShare = 0.7, kDrainShare = 0.8, kCompareShare = 0.92;
constexpr std::chrono::milliseconds kPoll{2};
constexpr std::size_t kFirstLaunches = 3;
constexpr double kLeastMs = 1e-6;       // what a time that the clock can't tell from none counts as
constexpr double kHopelessTimes = 2.5;  // times the best: one launch has told enough
constexpr int kRoundLaunches = 4;       // of the first round; twice as many in each further one
constexpr int kFinalLaunches = 30;

int parallel_compiles(const Service& service) {
    const int asked = service.options().workers > 0 ? service.options().workers : config::workers();
    return asked > 0 ? asked : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

/// Those of a template where nothing but `fixed` is given.
Values default_values(const Template& of, const Variant& like, const Values& fixed) {
    Values values;
    for (const auto& [name, value] : like.values()) {
        const auto given = fixed.find(name);
        values.emplace(name, given != fixed.end() ? given->second : of.default_of(name, fixed));
    }
    return values;
}

double median(std::vector<double> times_ms) { return summarise(std::move(times_ms)).median_ms; }

}  // namespace

Tournament::Tournament(Service& service, CandidateRunner& candidate_runner, Runner& runner, Journal& journal,
                       const TuneOptions& options, const std::map<std::string, std::string>& digests,
                       TuneProgress progress)
    : service_(service),
      candidate_runner_(candidate_runner),
      runner_(runner),
      journal_(journal),
      options_(options),
      digests_(digests),
      progress_(progress) {}

TunedShape Tournament::run(std::span<const Space> spaces, const Sizes& sizes, Clock::time_point deadline) {
    start_ = Clock::now();
    deadline_ = deadline;
    const auto share = [&](double part) {
        return start_ + std::chrono::duration_cast<Clock::duration>((deadline - start_) * part);
    };
    Candidates all = ordered_candidates(service_, spaces, sizes, options_.test_sizes);
    result_.legal = all.legal;
    result_.left_out = std::move(all.left_out);
    candidates_ = dealt(std::move(all.ordered), options_.shard, options_.shards);
    result_.fitting = candidates_.size();
    const Template& first = spaces.front().of;
    for (const Candidate& candidate : candidates_)
        if (candidate.variant.template_name() == first.name() &&
            candidate.variant.values() == default_values(first, candidate.variant, options_.fixed))
            default_text_ = candidate.variant.text();
    if (!candidates_.empty()) result_.sizes = candidates_.front().problem.sizes;
    {
        Search search_order(candidates_);
        resume(search_order);
        search(search_order, share(kSearchShare), share(kDrainShare));
    }
    compare(share(kCompareShare));
    verify();
    result_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    return std::move(result_);
}

std::string Tournament::key(const Candidate& candidate) const {
    return candidate.variant.text() + " | " + sizes_text(candidate.problem.sizes) + " | " +
           digests_.at(candidate.variant.template_name());
}

void Tournament::tell(std::string_view phase) {
    if (!options_.on_progress) return;
    const auto now = Clock::now();
    progress_.phase = phase;
    progress_.done = tried_;
    progress_.failed = result_.failures.size();
    progress_.seconds_left = std::max(0.0, std::chrono::duration<double>(deadline_ - now).count());
    // What the time left will do for, going by the rate so far.
    const double elapsed = std::chrono::duration<double>(now - start_).count();
    const double whole = std::chrono::duration<double>(deadline_ - start_).count() * kSearchShare;
    const auto fresh = static_cast<double>(tried_ - known_);
    double total = static_cast<double>(candidates_.size());
    if (elapsed > 0.5 && fresh > 0 && elapsed < whole)
        total = std::min(total, static_cast<double>(known_) + fresh / elapsed * whole);
    progress_.total = std::max(progress_.done, static_cast<std::size_t>(total));
    options_.on_progress(progress_);
}

void Tournament::fail(Entrant& entrant, const std::string& reason, bool wrong) {
    const Candidate& candidate = candidates_[entrant.candidate];
    entrant.failed = true;
    journal_.add(key(candidate), {0, wrong, reason});
    result_.failures.push_back({candidate.variant.text(), reason, wrong});
}

void Tournament::resume(Search& search) {
    if (!options_.resume) return;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
        const auto record = journal_.find(key(candidates_[i]));
        if (!record) continue;
        ++known_;
        if (record->median_ms > 0) {
            entrants_.push_back({i, {}, {}, record->median_ms, record->text, false});
            if (candidates_[i].variant.text() == default_text_) result_.default_ms = record->median_ms;
            search.timed(i, record->median_ms);
        } else {
            search.skip(i);
            result_.failures.push_back({candidates_[i].variant.text(), record->text, record->wrong});
        }
    }
    tried_ = known_;
    result_.timed = result_.resumed = entrants_.size();
}

void Tournament::search(Search& search, Clock::time_point until, Clock::time_point drained) {
    const auto window = static_cast<std::size_t>(parallel_compiles(service_)) + 2;
    std::list<Pending> pending;
    std::size_t started = 0;
    bool more = true;
    // At least one is to be timed, however small the budget: for that the first few may be tried, one by one.
    const auto may_start = [&] {
        if (Clock::now() < until) return pending.size() < window;
        return entrants_.empty() && pending.empty() && started < window;
    };
    const auto out_of_time = [&] { return Clock::now() > drained && !entrants_.empty(); };
    while (!stopping()) {
        while (more && may_start()) {
            const auto next = search.next();
            // While compiles are under way their results may show others the way, but all that is left is out.
            if (!next) {
                more = false;
                break;
            }
            ++started;
            pending.push_back({*next, service_.compile_async(candidates_[*next].variant)});
        }
        if (pending.empty()) break;
        if (out_of_time()) break;
        bool any = false;
        for (auto one = pending.begin(); one != pending.end() && !stopping() && !out_of_time();) {
            if (one->future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
                ++one;
                continue;
            }
            any = true;
            enter(search, one->candidate, std::move(one->future));
            one = pending.erase(one);
            tell("compiling and timing");
        }
        if (!any) pending.front().future.wait_for(kPoll);
        tell("compiling and timing");
    }
    result_.complete = !more && pending.empty() && !stopping();
}

void Tournament::enter(Search& search, std::size_t index, std::future<Compiled> future) {
    Entrant entrant{index, {}, {}, 0, {}, false};
    double best = 0;
    for (const Entrant& other : entrants_)
        best = best == 0 ? other.median_ms : std::min(best, other.median_ms);
    ++tried_;
    attempt(entrant, [&] {
        static_cast<void>(future.get());
        std::string problem = make_ready(entrant);
        if (problem.empty()) time_first(entrant, best);
        return problem;
    });
    if (entrant.failed || entrant.times_ms.empty()) return;
    progress_.best_ms = best == 0 ? entrant.median_ms : std::min(best, entrant.median_ms);
    if (candidates_[index].variant.text() == default_text_) result_.default_ms = entrant.median_ms;
    search.timed(index, entrant.median_ms);
    ++result_.timed;
    entrants_.push_back(std::move(entrant));
}

/// The journal knows of it before it begins, so that what hangs or ends the process is known too.
void Tournament::attempt(Entrant& entrant, const Work& work) {
    const std::string name = key(candidates_[entrant.candidate]);
    journal_.begin(name);
    try {
        watch(entrant, work);
    } catch (const TemplateError&) {
        journal_.withdraw(name);
        throw;
    }
    if (entrant.failed) return;
    if (entrant.median_ms > 0)
        journal_.add(name, {entrant.median_ms, false, entrant.compiler});
    else
        journal_.withdraw(name);
}

/// What a candidate does wrong is its failure and nobody else's, as long as the device goes on working.
void Tournament::watch(Entrant& entrant, const Work& work) {
    try {
        const std::string problem = work();
        if (problem.empty()) return;
        fail(entrant, problem, true);
    } catch (const TemplateError&) {
        throw;  // of the reference, which all candidates share
    } catch (const DeviceError& error) {
        if (stopping()) return;  // nor did a launch that was ended
        fail(entrant, error.what(), false);
        if (!device_works())
            throw DeviceError(candidates_[entrant.candidate].variant.text() +
                                  " failed on the device, which takes no more work of this process: " +
                                  error.what() + ". With --resume the next run leaves it out.",
                              error.call(), error.code());
    } catch (const Error& error) {
        if (stopping()) return;  // a compiler that was ended did not fail
        fail(entrant, error.what(), false);
    }
    candidate_runner_.drop_scratch();
}

/// After a fault every call of the process fails; after a launch that was refused, none.
bool Tournament::device_works() const {
    try {
        service_.stream().synchronize();
        return true;
    } catch (const DeviceError&) {
        return false;
    }
}

/// Built, and right.
std::string Tournament::make_ready(Entrant& entrant) {
    const Candidate& candidate = candidates_[entrant.candidate];
    const AnyKernel kernel = service_.build(candidate.variant);
    std::string problem = candidate_runner_.check(kernel, candidate.problem);
    if (!problem.empty()) return problem;
    entrant.kernel = kernel;
    entrant.compiler = as_field(kernel.info().compiler);
    return {};
}

void Tournament::time_first(Entrant& entrant, double best_ms) {
    const Candidate& candidate = candidates_[entrant.candidate];
    const double enough_ms = best_ms > 0 ? kHopelessTimes * best_ms : std::numeric_limits<double>::infinity();
    entrant.times_ms =
        candidate_runner_.times_ms(entrant.kernel, candidate.problem, kFirstLaunches, enough_ms);
    entrant.median_ms = std::max(median(entrant.times_ms), kLeastMs);
}

/// The fastest `most`, the fastest of each template, and the defaults, which all are told beside.
void Tournament::keep_best(std::size_t most) {
    std::ranges::sort(entrants_, [](const Entrant& a, const Entrant& b) {
        return a.median_ms != b.median_ms ? a.median_ms < b.median_ms : a.candidate < b.candidate;
    });
    std::set<std::string> templates;
    std::size_t place = 0;
    std::erase_if(entrants_, [&](const Entrant& entrant) {
        const Variant& variant = candidates_[entrant.candidate].variant;
        const bool is_first = templates.insert(variant.template_name()).second;
        return place++ >= most && !is_first && variant.text() != default_text_;
    });
}

void Tournament::compare(Clock::time_point until) {
    const auto finalists = static_cast<std::size_t>(std::max(options_.finalists, 1));
    int launches = kRoundLaunches;
    while (!stopping() && entrants_.size() > finalists && Clock::now() < until) {
        const std::size_t before = entrants_.size();
        keep_best(std::max(finalists, before / 3));
        if (before / 3 <= finalists || entrants_.size() == before) break;
        launch_in_turn(launches, until);
        launches *= 2;
    }
    keep_best(finalists);
    if (!stopping()) launch_in_turn(kFinalLaunches, until);
    keep_best(finalists);
}

/// Of each entrant that is ready; what fails is its own failure.
std::vector<std::vector<double>> Tournament::times_in_turn(int launches, Clock::time_point until) {
    using Times = std::vector<std::vector<double>>;
    const auto in_turn = [&](auto&& add_time, auto&& after_each) {
        Times times_ms(entrants_.size());
        for (int i = 0; i < launches && !stopping(); ++i) {
            // Forwards and back, so that nobody always follows the same neighbour.
            for (std::size_t k = 0; k < entrants_.size(); ++k) {
                const std::size_t which = i % 2 == 0 ? k : entrants_.size() - 1 - k;
                if (is_ready(entrants_[which])) add_time(entrants_[which], times_ms[which]);
            }
            after_each();
            if (Clock::now() > until) break;
        }
        return times_ms;
    };
    const auto time_ms = [&](const Entrant& entrant) {
        return candidate_runner_.time_ms(entrant.kernel, candidates_[entrant.candidate].problem);
    };
    if (!isolates(service_)) {
        return in_turn(
            [&](Entrant& entrant, std::vector<double>& times) {
                watch(entrant, [&] {
                    times.push_back(time_ms(entrant));
                    return std::string();
                });
            },
            [&] { tell("comparing"); });
    }
    for (const Entrant& entrant : entrants_)
        if (is_ready(entrant)) candidate_runner_.prepare(candidates_[entrant.candidate].problem);
    try {
        return isolated(
            service_, "of the finalists", [&](std::string_view) { tell("comparing"); },
            [&](const TellPhase& told) {
                // The first launch of each meets the child's memory for the first time.
                for (const Entrant& entrant : entrants_)
                    if (is_ready(entrant)) static_cast<void>(time_ms(entrant));
                return in_turn(
                    [&](Entrant& entrant, std::vector<double>& times) { times.push_back(time_ms(entrant)); },
                    [&] { told("comparing"); });
            });
    } catch (const DeviceError&) {
        // One of them ended the child: each by itself.
        Times times_ms(entrants_.size());
        for (std::size_t k = 0; k < entrants_.size() && !stopping(); ++k) {
            Entrant& entrant = entrants_[k];
            if (!is_ready(entrant)) continue;
            watch(entrant, [&] {
                times_ms[k] = candidate_runner_.times_ms(
                    entrant.kernel, candidates_[entrant.candidate].problem,
                    static_cast<std::size_t>(launches), std::numeric_limits<double>::infinity());
                return std::string();
            });
        }
        return times_ms;
    }
}

void Tournament::launch_in_turn(int launches, Clock::time_point until) {
    // Those that are known from the journal are built when they matter, while there is time; else what it says counts.
    for (Entrant& entrant : entrants_) {
        if (entrant.kernel) continue;
        if (stopping() || Clock::now() > until) break;
        attempt(entrant, [&] { return make_ready(entrant); });
        tell("comparing");
    }
    const std::vector<std::vector<double>> times_ms = times_in_turn(launches, until);
    for (std::size_t k = 0; k < entrants_.size(); ++k) {
        Entrant& entrant = entrants_[k];
        if (!is_ready(entrant)) continue;
        // A round that was cut short adds to what is known; a whole one replaces it.
        if (times_ms[k].size() >= static_cast<std::size_t>(kRoundLaunches)) entrant.times_ms.clear();
        entrant.times_ms.insert(entrant.times_ms.end(), times_ms[k].begin(), times_ms[k].end());
        if (!entrant.times_ms.empty()) entrant.median_ms = std::max(median(entrant.times_ms), kLeastMs);
        if (candidates_[entrant.candidate].variant.text() == default_text_)
            result_.default_ms = entrant.median_ms;
    }
    std::erase_if(entrants_, [](const Entrant& entrant) { return entrant.failed; });
}

void Tournament::verify() {
    candidate_runner_.clear();
    std::set<std::string> found;
    for (Entrant& entrant : entrants_) {  // the fastest first
        const std::string& name = candidates_[entrant.candidate].variant.template_name();
        if (found.contains(name)) continue;
        if (!stopping()) {
            tell("verifying");
            attempt(entrant, [&] { return verified(entrant); });
        }
        if (entrant.failed) continue;
        found.insert(name);
        result_.best.push_back(entry(entrant));
    }
}

/// With other inputs than before.
std::string Tournament::verified(Entrant& entrant) {
    const Candidate& candidate = candidates_[entrant.candidate];
    RunOptions options;
    options.sizes = candidate.problem.sizes;
    options.check = Check::sample;
    options.seed = options_.seed + 1;
    options.warm_up = 0;
    options.iterations = 2;
    const RunResult run = runner_.run(candidate.variant, options);
    entrant.compiler = as_field(run.build.compiler);
    std::string problems;
    for (const std::string& problem : run.failures()) problems += (problems.empty() ? "" : " ") + problem;
    return problems;
}

WisdomEntry Tournament::entry(const Entrant& entrant) const {
    const Candidate& candidate = candidates_[entrant.candidate];
    WisdomEntry entry;
    entry.template_name = candidate.variant.template_name();
    entry.values = candidate.variant.values();
    entry.problem_values = problem_parameters(service_, candidate.variant.origin());
    entry.sizes = candidate.problem.sizes;
    entry.device = as_field(service_.device().info().name);
    entry.arch = service_.target().arch;
    entry.median_ms = entrant.median_ms;
    entry.tried = result_.timed;
    entry.digest = digests_.at(entry.template_name);
    entry.compiler = entrant.compiler.empty() ? "-" : entrant.compiler;
    entry.date = utc_now();
    return entry;
}

}  // namespace kiln
