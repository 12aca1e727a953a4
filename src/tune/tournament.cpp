// SPDX-License-Identifier: Apache-2.0
//
// Of the budget the search takes seven tenths; compiles under way at its end have another tenth to be done. What
// comes then takes little on a GPU, and on the host what there is.
#include "tune/tournament.h"

#include <kiln/error.h>

#include <algorithm>
#include <set>
#include <thread>

#include "base/config.h"
#include "tune/wisdom_line.h"

namespace kiln {
namespace {

constexpr double kSearchShare = 0.7, kDrainShare = 0.8, kCompareShare = 0.92;
constexpr std::chrono::milliseconds kPoll{2};
constexpr int kFirstLaunches = 3;
constexpr double kHopelessTimes = 2.5;  // times the best: one launch has told enough
constexpr int kRoundLaunches = 4;  // of the first round; twice as many in each further one
constexpr int kFinalLaunches = 30;

int parallel_compiles(const Service& service) {
    const int asked = service.options().workers > 0 ? service.options().workers : config::workers();
    return asked > 0 ? asked : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

/// Those of a template where nothing but `fixed` is given.
Values default_values(const Template& of, const Variant& like, const Values& fixed) {
    Values values = like.values();
    for (auto& [name, value] : values) {
        const auto given = fixed.find(name);
        value = given != fixed.end() ? given->second : of.parameter(name)->default_value;
    }
    return values;
}

double median(std::vector<double> times_ms) { return summarise(std::move(times_ms)).median_ms; }

}  // namespace

Tournament::Tournament(Service& service, Arena& arena, Runner& runner, Journal& journal,
                       const TuneOptions& options, const std::map<std::string, std::string>& digests,
                       TuneProgress progress)
    : service_(service),
      arena_(arena),
      runner_(runner),
      journal_(journal),
      options_(options),
      digests_(digests),
      progress_(progress) {}

TunedShape Tournament::run(std::span<const Template> templates, const Sizes& sizes,
                           Clock::time_point deadline) {
    start_ = Clock::now();
    deadline_ = deadline;
    const auto share = [&](double part) {
        return start_ + std::chrono::duration_cast<Clock::duration>((deadline - start_) * part);
    };
    candidates_ = dealt(ordered_candidates(service_, templates, options_, sizes, result_.legal),
                        options_.shard, options_.shards);
    result_.fitting = candidates_.size();
    for (const Candidate& candidate : candidates_)
        if (candidate.variant.template_name() == templates.front().name() &&
            candidate.variant.values() ==
                default_values(templates.front(), candidate.variant, options_.fixed))
            default_text_ = candidate.variant.text();
    if (!candidates_.empty()) result_.sizes = candidates_.front().problem.sizes;
    {
        Search search_order(candidates_);
        resume(search_order);
        search(search_order, share(kSearchShare), share(kDrainShare));
    }
    result_.timed = entrants_.size();
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
    progress_.done = entrants_.size() + result_.failures.size();
    progress_.failed = result_.failures.size();
    progress_.seconds_left = std::max(0.0, std::chrono::duration<double>(deadline_ - now).count());
    // What the time left will do for, going by the rate so far.
    const double elapsed = std::chrono::duration<double>(now - start_).count();
    const double whole = std::chrono::duration<double>(deadline_ - start_).count() * kSearchShare;
    const double fresh =
        static_cast<double>(progress_.done - std::min<std::size_t>(progress_.done, result_.resumed));
    double total = static_cast<double>(candidates_.size());
    if (elapsed > 0.5 && fresh > 0 && elapsed < whole)
        total = std::min(total, static_cast<double>(result_.resumed) + fresh / elapsed * whole);
    progress_.total = std::max(progress_.done, static_cast<std::size_t>(total));
    options_.on_progress(progress_);
}

void Tournament::fail(const Candidate& candidate, const std::string& reason, bool wrong) {
    result_.failures.push_back({candidate.variant.text(), reason, wrong});
}

void Tournament::resume(Search& search) {
    if (!options_.resume) return;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
        const auto record = journal_.find(key(candidates_[i]));
        if (!record) continue;
        ++result_.resumed;
        if (record->median_ms > 0) {
            entrants_.push_back({i, {}, {}, record->median_ms});
            if (candidates_[i].variant.text() == default_text_) result_.default_ms = record->median_ms;
            search.timed(i, record->median_ms);
        } else {
            search.skip(i);
            fail(candidates_[i], record->reason, record->wrong);
        }
    }
}

void Tournament::search(Search& search, Clock::time_point until, Clock::time_point drained) {
    const auto window = static_cast<std::size_t>(parallel_compiles(service_)) + 2;
    std::list<Pending> pending;
    bool more = true;
    // At least one is to be timed, however small the budget.
    const auto out_of_time = [&] { return Clock::now() > drained && !entrants_.empty(); };
    while (!stopping()) {
        const auto now = Clock::now();
        while (more && now < until && pending.size() < window) {
            const auto next = search.next();
            // While compiles are under way their results may show others the way, but all that is left is out.
            if (!next) {
                more = false;
                break;
            }
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
}

void Tournament::enter(Search& search, std::size_t index, std::future<Compiled> future) {
    const Candidate& candidate = candidates_[index];
    Entrant entrant{index, {}, {}, 0};
    const auto give_up = [&](const std::string& reason, bool wrong) {
        if (stopping()) return;  // a compiler that was ended did not fail
        journal_.add(key(candidate), {0, wrong, reason});
        fail(candidate, reason, wrong);
    };
    try {
        static_cast<void>(future.get());
        entrant.kernel = service_.build(candidate.variant);
        const std::string problem = arena_.check(entrant.kernel, candidate.problem);
        if (!problem.empty()) return give_up(problem, true);
    } catch (const BuildError& error) {
        return give_up(error.what(), false);
    } catch (const VariantError& error) {
        return give_up(error.what(), false);
    } catch (const UsageError& error) {
        return give_up(error.what(), false);
    } catch (const DeviceError& error) {
        give_up(error.what(), false);
        throw DeviceError(candidate.variant.text() +
                              " failed on the device, which takes no more work of this process: " +
                              error.what() + ". With --resume the next run leaves it out.",
                          error.call(), error.code());
    }
    double best = 0;
    for (const Entrant& other : entrants_)
        best = best == 0 ? other.median_ms : std::min(best, other.median_ms);
    for (int i = 0; i < kFirstLaunches; ++i) {
        entrant.times_ms.push_back(arena_.time_ms(entrant.kernel, candidate.problem));
        if (best > 0 && entrant.times_ms.back() > kHopelessTimes * best) break;
    }
    entrant.median_ms = std::max(median(entrant.times_ms), 1e-6);
    progress_.best_ms = best == 0 ? entrant.median_ms : std::min(best, entrant.median_ms);
    journal_.add(key(candidate), {entrant.median_ms, false, {}});
    if (candidate.variant.text() == default_text_) result_.default_ms = entrant.median_ms;
    search.timed(index, entrant.median_ms);
    entrants_.push_back(std::move(entrant));
}

/// Those that are known from the journal are built when they matter.
bool Tournament::make_ready(Entrant& entrant) {
    if (entrant.kernel) return true;
    const Candidate& candidate = candidates_[entrant.candidate];
    try {
        entrant.kernel = service_.build(candidate.variant);
        const std::string problem = arena_.check(entrant.kernel, candidate.problem);
        if (problem.empty()) return true;
        fail(candidate, problem, true);
    } catch (const BuildError& error) {
        fail(candidate, error.what(), false);
    }
    return false;
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

void Tournament::launch_in_turn(int launches, Clock::time_point until) {
    std::erase_if(entrants_, [&](Entrant& entrant) { return !make_ready(entrant); });
    std::vector<std::vector<double>> times_ms(entrants_.size());
    for (int i = 0; i < launches && !stopping(); ++i) {
        // Forwards and back, so that nobody always follows the same neighbour.
        for (std::size_t k = 0; k < entrants_.size(); ++k) {
            const std::size_t which = i % 2 == 0 ? k : entrants_.size() - 1 - k;
            const Entrant& entrant = entrants_[which];
            times_ms[which].push_back(arena_.time_ms(entrant.kernel, candidates_[entrant.candidate].problem));
        }
        tell("comparing");
        if (Clock::now() > until) break;
    }
    for (std::size_t k = 0; k < entrants_.size(); ++k) {
        Entrant& entrant = entrants_[k];
        // A round that was cut short adds to what is known; a whole one replaces it.
        if (times_ms[k].size() >= static_cast<std::size_t>(kRoundLaunches)) entrant.times_ms.clear();
        entrant.times_ms.insert(entrant.times_ms.end(), times_ms[k].begin(), times_ms[k].end());
        if (!entrant.times_ms.empty()) entrant.median_ms = std::max(median(entrant.times_ms), 1e-6);
        if (candidates_[entrant.candidate].variant.text() == default_text_)
            result_.default_ms = entrant.median_ms;
    }
}

void Tournament::verify() {
    arena_.clear();
    std::set<std::string> found;
    for (const Entrant& entrant : entrants_) {  // the fastest first
        const Candidate& candidate = candidates_[entrant.candidate];
        if (found.contains(candidate.variant.template_name())) continue;
        if (!stopping()) {
            tell("verifying");
            RunOptions options;
            options.sizes = candidate.problem.sizes;
            options.check = Check::sample;
            options.seed = options_.seed + 1;
            options.warm_up = 0;
            options.iterations = 2;
            const RunResult run = runner_.run(candidate.variant, options);
            if (!run.pass()) {
                std::string reason;
                for (const std::string& failure : run.failures())
                    reason += (reason.empty() ? "" : " ") + failure;
                journal_.add(key(candidate), {0, true, reason});
                fail(candidate, reason, true);
                continue;
            }
        }
        found.insert(candidate.variant.template_name());
        result_.best.push_back(entry(entrant));
    }
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
    entry.compiler = entrant.kernel ? as_field(entrant.kernel.info().compiler) : "-";
    entry.date = utc_now();
    return entry;
}

}  // namespace kiln
