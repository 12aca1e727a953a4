// SPDX-License-Identifier: Apache-2.0
//
// The search takes seven tenths of the budget; compiles that are running at its end get another tenth. On a GPU,
// comparing and verifying need little time; on the host they use the rest.
#include "tune/variant_search.h"

#include <kiln/error.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <set>
#include <system_error>
#include <thread>

#include "base/config.h"
#include "run/isolated.h"
#include "tune/problem_space.h"
#include "tune/wisdom_line.h"

namespace kiln {
namespace {

constexpr double kSearchShare = 0.7, kDrainShare = 0.8, kCompareShare = 0.92;
constexpr std::chrono::milliseconds kPoll{2};
constexpr std::size_t kFirstLaunches = 3;
constexpr std::size_t kConsidered = 8;  // of the chooser's, to begin with
constexpr double kLeastMs = 1e-6;       // the least time that is recorded, when the clock reads zero
constexpr double kHopelessTimes = 2.5;  // times the best: one launch is enough
constexpr int kRoundLaunches = 4;       // in the first round; doubled in each further one
constexpr int kFinalLaunches = 30;

int parallel_compiles(const Service& service) {
    const int asked = service.options().workers > 0 ? service.options().workers : config::workers();
    return asked > 0 ? asked : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

/// The template's values when only `fixed` is given, which it has.
Values default_values(const Template& of, const Variant& like, const Values& fixed) {
    Values values;
    for (const auto& [name, value] : like.values()) {
        const auto given = fixed.find(name);
        values.emplace(name, given != fixed.end() ? given->second : of.default_of(name, fixed));
    }
    return values;
}

/// What the chooser considers for the problem, what it takes first; nothing where it has no variant for it.
std::vector<Variant> considered(const Chooser& chooser, std::span<const VariantSpace> spaces,
                                const Values& fixed, const Sizes& sizes) {
    std::vector<Template> templates;
    for (const VariantSpace& space : spaces) templates.push_back(space.of);
    std::vector<Variant> found;
    try {
        for (ConsideredVariant& one : chooser.considered(templates, fixed, sizes, kConsidered))
            found.push_back(std::move(one.variant));
    } catch (const VariantError&) {
        // the candidates of this search then all differ from the variants of the chooser
    }
    return found;
}

double median(std::vector<double> times_ms) { return summarise(std::move(times_ms)).median_ms; }

}  // namespace

VariantSearch::VariantSearch(Service& service, CandidateRunner& candidate_runner, Runner& runner,
                             Journal& journal, const TuneOptions& options,
                             const std::map<std::string, std::string>& digests, TuneProgress progress)
    : service_(service),
      candidate_runner_(candidate_runner),
      runner_(runner),
      journal_(journal),
      options_(options),
      digests_(digests),
      progress_(progress) {}

TunedShape VariantSearch::run(std::span<const VariantSpace> spaces, const Sizes& sizes,
                              const Chooser& chooser, Clock::time_point deadline) {
    start_ = Clock::now();
    deadline_ = deadline;
    const auto share = [&](double part) {
        return start_ + std::chrono::duration_cast<Clock::duration>((deadline - start_) * part);
    };
    Candidates all = ordered_candidates(service_, spaces, sizes, options_.test_sizes);
    result_.legal = all.legal;
    result_.left_out = std::move(all.left_out);
    candidates_ = of_shard(std::move(all.ordered), options_.shard, options_.shards);
    result_.fitting = candidates_.size();
    const Template& first = spaces.front().of;
    const Values fixed = problem_values(service_, first, options_.fixed);
    for (const Candidate& candidate : candidates_)
        if (candidate.variant.template_name() == first.name() &&
            candidate.variant.values() == default_values(first, candidate.variant, fixed))
            default_text_ = candidate.variant.text();
    if (!candidates_.empty()) result_.sizes = candidates_.front().problem.sizes;
    {
        CandidateQueue search_order(candidates_, considered(chooser, spaces, options_.fixed, result_.sizes));
        resume(search_order);
        search(search_order, share(kSearchShare), share(kDrainShare));
    }
    compare(share(kCompareShare));
    verify();
    result_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    return std::move(result_);
}

std::string VariantSearch::key(const Candidate& candidate) const {
    return candidate.variant.text() + " | " + sizes_text(candidate.problem.sizes) + " | " +
           digests_.at(candidate.variant.template_name());
}

void VariantSearch::report_progress(std::string_view phase) {
    if (!options_.on_progress) return;
    const auto now = Clock::now();
    progress_.phase = phase;
    progress_.done = tried_;
    progress_.failed = result_.failures.size();
    progress_.seconds_left = std::max(0.0, std::chrono::duration<double>(deadline_ - now).count());
    // The number of candidates that the time left suffices for, at the rate so far.
    const double elapsed = std::chrono::duration<double>(now - start_).count();
    const double whole = std::chrono::duration<double>(deadline_ - start_).count() * kSearchShare;
    const auto fresh = static_cast<double>(tried_ - known_);
    double total = static_cast<double>(candidates_.size());
    if (elapsed > 0.5 && fresh > 0 && elapsed < whole)
        total = std::min(total, static_cast<double>(known_) + fresh / elapsed * whole);
    progress_.total = std::max(progress_.done, static_cast<std::size_t>(total));
    options_.on_progress(progress_);
}

void VariantSearch::fail(TimedVariant& timed, const std::string& reason, bool wrong, bool also_later) {
    const Candidate& candidate = candidates_[timed.candidate];
    timed.failed = true;
    if (also_later)
        journal_.add(key(candidate), {0, wrong, reason});
    else
        journal_.withdraw(key(candidate));
    result_.failures.push_back({candidate.variant.text(), reason, wrong});
}

void VariantSearch::resume(CandidateQueue& search) {
    if (!options_.resume) return;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
        const auto record = journal_.find(key(candidates_[i]));
        if (!record) continue;
        ++known_;
        if (record->median_ms > 0) {
            timed_.push_back({i, {}, {}, record->median_ms, record->text, false});
            if (candidates_[i].variant.text() == default_text_) result_.default_ms = record->median_ms;
            search.timed(i, record->median_ms);
        } else {
            search.skip(i);
            result_.failures.push_back({candidates_[i].variant.text(), record->text, record->wrong});
        }
    }
    tried_ = known_;
    result_.timed = result_.resumed = timed_.size();
}

void VariantSearch::search(CandidateQueue& search, Clock::time_point until, Clock::time_point drained) {
    const auto window = static_cast<std::size_t>(parallel_compiles(service_)) + 2;
    std::list<Pending> pending;
    // What is left in the end, also after an exception, nobody waits for.
    struct GivenUp : std::stop_source {
        ~GivenUp() { request_stop(); }
    } given_up;
    std::size_t started = 0;
    bool more = true;
    // At least one candidate is timed, however small the budget. Until then, the first few may be tried one
    // by one.
    const auto may_start = [&] {
        if (Clock::now() < until) return pending.size() < window;
        return timed_.empty() && pending.empty() && started < window;
    };
    const auto out_of_time = [&] { return Clock::now() > drained && !timed_.empty(); };
    while (!stopping()) {
        while (more && may_start()) {
            const auto next = search.next();
            // No candidates are left to start.
            if (!next) {
                more = false;
                break;
            }
            ++started;
            pending.push_back(
                {*next, service_.compile_async(candidates_[*next].variant, given_up.get_token())});
        }
        if (pending.empty()) break;
        if (out_of_time()) break;
        bool any = false;
        for (auto one = pending.begin(); one != pending.end() && !stopping() && !out_of_time();) {
            if (one->future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
                // The chooser's variant is the first to be timed, though others may be compiled sooner: preparing a large
                // problem can take all the time.
                if (timed_.empty() && Clock::now() < until) break;
                ++one;
                continue;
            }
            any = true;
            enter(search, one->candidate, std::move(one->future));
            one = pending.erase(one);
            report_progress("compiling and timing");
        }
        if (!any) pending.front().future.wait_for(kPoll);
        report_progress("compiling and timing");
    }
    result_.complete = !more && pending.empty() && !stopping();
}

void VariantSearch::enter(CandidateQueue& search, std::size_t index, std::future<Compiled> future) {
    TimedVariant timed{index, {}, {}, 0, {}, false};
    double best = 0;
    for (const TimedVariant& other : timed_)
        best = best == 0 ? other.median_ms : std::min(best, other.median_ms);
    ++tried_;
    attempt(timed, [&] {
        static_cast<void>(future.get());
        std::string problem = build_and_check(timed);
        if (problem.empty()) time_first(timed, best);
        return problem;
    });
    if (timed.failed || timed.times_ms.empty()) return;
    progress_.best_ms = best == 0 ? timed.median_ms : std::min(best, timed.median_ms);
    if (candidates_[index].variant.text() == default_text_) result_.default_ms = timed.median_ms;
    search.timed(index, timed.median_ms);
    ++result_.timed;
    timed_.push_back(std::move(timed));
}

/// The attempt is recorded before it starts, so that a candidate that hangs or kills the process is known to
/// the next run.
void VariantSearch::attempt(TimedVariant& timed, const Work& work) {
    const std::string name = key(candidates_[timed.candidate]);
    journal_.begin(name);
    try {
        watch(timed, work);
    } catch (const TemplateError&) {
        journal_.withdraw(name);
        throw;
    }
    if (timed.failed) return;
    if (timed.median_ms > 0)
        journal_.add(name, {timed.median_ms, false, timed.compiler});
    else
        journal_.withdraw(name);
}

namespace {

// Such as no room for temporary files, or too many open ones: the next run may have what this one lacked.
bool is_of_the_system(const Error& error) {
    try {
        std::rethrow_if_nested(error);
    } catch (const std::system_error&) {
        return true;
    } catch (...) {
    }
    return false;
}

}  // namespace

/// An error of a candidate is that candidate's failure alone, as long as the device still works.
void VariantSearch::watch(TimedVariant& timed, const Work& work) {
    try {
        const std::string problem = work();
        if (problem.empty()) return;
        fail(timed, problem, true);
    } catch (const TemplateError&) {
        throw;  // of the reference, which all candidates share
    } catch (const DeviceError& error) {
        if (stopping()) return;  // a launch that was stopped did not fail
        fail(timed, error.what(), false);
        if (!device_works())
            throw DeviceError(candidates_[timed.candidate].variant.text() +
                                  " failed, and the device accepts no more work from this process: " +
                                  error.what() + ". With --resume the next run skips it.",
                              error.call(), error.code());
    } catch (const Error& error) {
        if (stopping()) return;  // a compile that was stopped did not fail
        fail(timed, error.what(), false, !is_of_the_system(error));
    }
    candidate_runner_.drop_scratch();
}

/// After a fault, every call of the process fails; after a rejected launch, none does.
bool VariantSearch::device_works() const {
    try {
        service_.stream().synchronize();
        return true;
    } catch (const DeviceError&) {
        return false;
    }
}

/// Returns what is wrong with the results, or nothing.
std::string VariantSearch::build_and_check(TimedVariant& timed) {
    const Candidate& candidate = candidates_[timed.candidate];
    const AnyKernel kernel = service_.build(candidate.variant);
    std::string problem = candidate_runner_.check(kernel, candidate.problem);
    if (!problem.empty()) return problem;
    timed.kernel = kernel;
    timed.compiler = as_field(kernel.info().compiler);
    return {};
}

void VariantSearch::time_first(TimedVariant& timed, double best_ms) {
    const Candidate& candidate = candidates_[timed.candidate];
    const double enough_ms = best_ms > 0 ? kHopelessTimes * best_ms : std::numeric_limits<double>::infinity();
    timed.times_ms = candidate_runner_.times_ms(timed.kernel, candidate.problem, kFirstLaunches, enough_ms);
    timed.median_ms = std::max(median(timed.times_ms), kLeastMs);
}

/// Keeps the fastest `most`, the fastest of each template, and the defaults, which results are compared with.
void VariantSearch::keep_best(std::size_t most) {
    std::ranges::sort(timed_, [](const TimedVariant& a, const TimedVariant& b) {
        return a.median_ms != b.median_ms ? a.median_ms < b.median_ms : a.candidate < b.candidate;
    });
    std::set<std::string> templates;
    std::size_t place = 0;
    std::erase_if(timed_, [&](const TimedVariant& timed) {
        const Variant& variant = candidates_[timed.candidate].variant;
        const bool is_first = templates.insert(variant.template_name()).second;
        return place++ >= most && !is_first && variant.text() != default_text_;
    });
}

void VariantSearch::compare(Clock::time_point until) {
    const auto finalists = static_cast<std::size_t>(options_.finalists);
    int launches = kRoundLaunches;
    while (!stopping() && timed_.size() > finalists && Clock::now() < until) {
        const std::size_t before = timed_.size();
        keep_best(std::max(finalists, before / 3));
        if (before / 3 <= finalists || timed_.size() == before) break;
        time_interleaved(launches, until);
        launches *= 2;
    }
    keep_best(finalists);
    if (!stopping()) time_interleaved(kFinalLaunches, until);
    keep_best(finalists);
}

/// Times of each variant that is ready. An error is the failure of that variant alone.
std::vector<std::vector<double>> VariantSearch::interleaved_times(int launches, Clock::time_point until) {
    using Times = std::vector<std::vector<double>>;
    const auto interleave = [&](auto&& add_time, auto&& after_each) {
        Times times_ms(timed_.size());
        for (int i = 0; i < launches && !stopping(); ++i) {
            // Forwards and backwards, so that no variant always follows the same one.
            for (std::size_t k = 0; k < timed_.size(); ++k) {
                const std::size_t which = i % 2 == 0 ? k : timed_.size() - 1 - k;
                if (is_ready(timed_[which])) add_time(timed_[which], times_ms[which]);
            }
            after_each();
            if (Clock::now() > until) break;
        }
        return times_ms;
    };
    const auto time_ms = [&](const TimedVariant& timed) {
        return candidate_runner_.time_ms(timed.kernel, candidates_[timed.candidate].problem);
    };
    if (!isolates(service_)) {
        return interleave(
            [&](TimedVariant& timed, std::vector<double>& times) {
                watch(timed, [&] {
                    times.push_back(time_ms(timed));
                    return std::string();
                });
            },
            [&] { report_progress("comparing"); });
    }
    for (const TimedVariant& timed : timed_)
        if (is_ready(timed)) candidate_runner_.prepare(candidates_[timed.candidate].problem);
    try {
        return isolated(
            service_, "of the finalists", [&](std::string_view) { report_progress("comparing"); },
            [&](const ReportPhase& told) {
                // The first launch of each touches the child's memory for the first time, so it is not timed.
                for (const TimedVariant& timed : timed_)
                    if (is_ready(timed)) static_cast<void>(time_ms(timed));
                return interleave(
                    [&](TimedVariant& timed, std::vector<double>& times) { times.push_back(time_ms(timed)); },
                    [&] { told("comparing"); });
            });
    } catch (const DeviceError&) {
        // One of them ended the child process: time each in a process of its own.
        Times times_ms(timed_.size());
        for (std::size_t k = 0; k < timed_.size() && !stopping(); ++k) {
            TimedVariant& timed = timed_[k];
            if (!is_ready(timed)) continue;
            watch(timed, [&] {
                times_ms[k] = candidate_runner_.times_ms(timed.kernel, candidates_[timed.candidate].problem,
                                                         static_cast<std::size_t>(launches),
                                                         std::numeric_limits<double>::infinity());
                return std::string();
            });
        }
        return times_ms;
    }
}

void VariantSearch::time_interleaved(int launches, Clock::time_point until) {
    // Variants that are known from the journal only are built now, while there is time; otherwise their
    // recorded time counts.
    for (TimedVariant& timed : timed_) {
        if (timed.kernel) continue;
        if (stopping() || Clock::now() > until) break;
        attempt(timed, [&] { return build_and_check(timed); });
        report_progress("comparing");
    }
    const std::vector<std::vector<double>> times_ms = interleaved_times(launches, until);
    for (std::size_t k = 0; k < timed_.size(); ++k) {
        TimedVariant& timed = timed_[k];
        if (!is_ready(timed)) continue;
        // A complete round replaces the earlier times; one that was cut short adds to them.
        if (times_ms[k].size() >= static_cast<std::size_t>(kRoundLaunches)) timed.times_ms.clear();
        timed.times_ms.insert(timed.times_ms.end(), times_ms[k].begin(), times_ms[k].end());
        if (!timed.times_ms.empty()) timed.median_ms = std::max(median(timed.times_ms), kLeastMs);
        if (candidates_[timed.candidate].variant.text() == default_text_)
            result_.default_ms = timed.median_ms;
    }
    std::erase_if(timed_, [](const TimedVariant& timed) { return timed.failed; });
}

void VariantSearch::verify() {
    candidate_runner_.clear();
    std::set<std::string> found;
    for (TimedVariant& timed : timed_) {  // the fastest first
        const std::string& name = candidates_[timed.candidate].variant.template_name();
        if (found.contains(name)) continue;
        if (!stopping()) {
            report_progress("verifying");
            attempt(timed, [&] { return verified(timed); });
        }
        if (timed.failed) continue;
        found.insert(name);
        result_.best.push_back(entry(timed));
    }
}

/// Runs the variant with other inputs than before.
std::string VariantSearch::verified(TimedVariant& timed) {
    const Candidate& candidate = candidates_[timed.candidate];
    RunOptions options;
    options.sizes = candidate.problem.sizes;
    options.check = Check::sample;
    options.seed = options_.seed + 1;
    options.warm_up = 0;
    options.iterations = 2;
    const RunResult run = runner_.run(candidate.variant, options);
    timed.compiler = as_field(run.build.compiler);
    std::string problems;
    for (const std::string& problem : run.failures()) problems += (problems.empty() ? "" : " ") + problem;
    return problems;
}

WisdomEntry VariantSearch::entry(const TimedVariant& timed) const {
    const Candidate& candidate = candidates_[timed.candidate];
    WisdomEntry entry;
    entry.template_name = candidate.variant.template_name();
    entry.values = candidate.variant.values();
    std::erase_if(entry.values, [](const auto& one) { return one.second.is_code(); });
    entry.problem_values = problem_parameters(service_, candidate.variant.origin());
    entry.sizes = candidate.problem.sizes;
    entry.device = as_field(service_.device().info().name);
    entry.arch = service_.target().arch;
    entry.median_ms = timed.median_ms;
    entry.tried = result_.timed;
    entry.digest = digests_.at(entry.template_name);
    entry.compiler = timed.compiler.empty() ? "-" : timed.compiler;
    entry.date = utc_now();
    return entry;
}

}  // namespace kiln
