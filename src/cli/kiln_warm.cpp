// SPDX-License-Identifier: Apache-2.0
//
// kiln warm: builds all variants of manifests in the background, one target after the other, and reports the
// results. The complete manifest is checked before the first compile.
#include <kiln/error.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <set>

#include "cli/kiln_cache.h"
#include "cli/kiln_command.h"
#include "cli/manifest_plan.h"
#include "cli/option_values.h"
#include "cli/progress_bar.h"
#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

// Pending futures: enough for any number of workers, few enough to keep their binaries in memory.
constexpr std::size_t kWindow = 256;
constexpr std::chrono::milliseconds kPoll{20};
// Time for compilers to end after a stop; after that the program exits.
constexpr std::chrono::milliseconds kPatience{250};
constexpr std::size_t kVariantsShown = 20;  // variants shown per reason of failure; --json has all

struct FailedVariant {
    std::string variant;
    Target target;
    std::string reason;
};

struct Outcome {
    std::uint64_t total = 0;
    std::uint64_t built = 0;
    std::map<Origin, std::uint64_t> already_there;
    std::vector<FailedVariant> failed;
    double compile_seconds = 0;  ///< of all compilers together
    double seconds = 0;
    bool interrupted = false;
    std::string cache_problem;
    std::set<std::string> on_disk;  ///< keys of all that was built or found there
    bool may_lack_some = false;     ///< entries were removed or not taken because of the cache's limit
    std::size_t not_kept = 0;       ///< of those of `on_disk`; the cache itself tells

    std::uint64_t already() const {
        std::uint64_t sum = 0;
        for (const auto& [tier, count] : already_there) sum += count;
        return sum;
    }
    std::uint64_t done() const { return built + already() + failed.size(); }
    double rate() const { return seconds > 0 ? double(built) / seconds : 0; }
};

/// Builds one group after the other and counts the results.
class Work {
  public:
    Work(const Call& call, std::stop_source& stop, Outcome& outcome)
        : call_(call),
          stop_(stop),
          fail_fast_(call.flag("fail-fast")),
          outcome_(outcome),
          bar_(call.terminal, "warm") {}

    void run(VariantGroup& group) {
        std::deque<Pending> window;
        std::size_t next = 0;
        auto stopped_at = Clock::time_point::max();
        bar_.update(outcome_.done(), outcome_.total);
        while (true) {
            const bool stopping = stop_.stop_requested();
            while (!stopping && next < group.variants.size() && window.size() < kWindow) {
                const Variant& variant = group.variants[next++];
                window.push_back({&variant, group.service->compile_async(variant)});
            }
            if (window.empty()) break;
            const bool progress = collect(window, group.service->target());
            bar_.update(outcome_.done(), outcome_.total, outcome_.failed.size());
            if (stopping) {
                stopped_at = std::min(stopped_at, Clock::now());
                if (Clock::now() - stopped_at > kPatience) break;
            }
            if (!stopping && stores_nothing(*group.service)) stop_.request_stop();
            if (!progress) window.front().future.wait_for(kPoll);
        }
        if (outcome_.cache_problem.empty()) outcome_.cache_problem = group.service->cache_problem();
        const Counters counters = group.service->counters();
        const bool may_lack = counters.pruned_entries > 0 || counters.stored_entries < counters.compiles;
        outcome_.may_lack_some = outcome_.may_lack_some || (may_lack && counters.remote_stores == 0);
        // Its workers end, and with them what they have precompiled. A compiler that hangs is not waited for.
        if (!stop_.stop_requested()) group.service.reset();
    }

  private:
    using Clock = std::chrono::steady_clock;
    struct Pending {
        const Variant* variant;
        std::future<Compiled> future;
    };

    /// Neither the directory nor a remote stores entries, so continuing would have no effect.
    static bool stores_nothing(const Service& service) {
        return service.counters().remote_stores == 0 && !service.cache_problem().empty();
    }

    /// Processes the results that are ready. False: there are none.
    bool collect(std::deque<Pending>& window, const Target& target) {
        const std::size_t before = window.size();
        std::erase_if(window, [&](Pending& pending) {
            if (pending.future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
            take(pending, target);
            return true;
        });
        return window.size() < before;
    }

    void take(Pending& pending, const Target& target) {
        try {
            const Compiled compiled = pending.future.get();
            if (compiled.origin == Origin::compiled || compiled.origin == Origin::off) {
                ++outcome_.built;
                outcome_.compile_seconds += compiled.binary.compile_ms / 1000;
            } else {
                ++outcome_.already_there[compiled.origin];
            }
            if (compiled.origin != Origin::seed) outcome_.on_disk.insert(compiled.key.digest);
        } catch (const Error& error) {
            // A build that was stopped did not fail.
            if (stop_.stop_requested()) return;
            // A broken template fails all of its variants: the first is reported at once, all of them at the end.
            if (told_.insert(error.what()).second)
                call_.terminal.complain(pending.variant->text() + " (" + target_text(target) + ") failed");
            outcome_.failed.push_back({pending.variant->text(), target, error.what()});
            if (fail_fast_) stop_.request_stop();
        }
    }

    const Call& call_;
    std::stop_source& stop_;
    const bool fail_fast_;
    Outcome& outcome_;
    std::set<std::string> told_;
    ProgressBar bar_;
};

Json outcome_json(const Outcome& outcome) {
    Json tiers = Json::object(), failed = Json::array();
    for (const Origin tier : {Origin::memory, Origin::disk, Origin::seed, Origin::remote}) {
        const auto found = outcome.already_there.find(tier);
        tiers[std::string(name(tier))] = found == outcome.already_there.end() ? 0 : found->second;
    }
    for (const FailedVariant& one : outcome.failed)
        failed.push_back({{"variant", one.variant},
                          {"backend", name(one.target.backend)},
                          {"arch", one.target.arch},
                          {"reason", one.reason}});
    Json json;
    json["total"] = outcome.total;
    json["built"] = outcome.built;
    json["already_there"] = tiers;
    json["failed"] = failed;
    json["not_reached"] = outcome.total - outcome.done();
    json["interrupted"] = outcome.interrupted;
    json["seconds"] = outcome.seconds;
    json["compile_seconds"] = outcome.compile_seconds;
    json["built_per_second"] = outcome.rate();
    json["cache_problem"] = outcome.cache_problem.empty() ? Json() : Json(outcome.cache_problem);
    json["not_kept"] = outcome.not_kept;
    return json;
}

std::string outcome_text(const Outcome& outcome) {
    std::string text = line("built", std::to_string(outcome.built));
    std::vector<std::string> tiers;
    for (const auto& [tier, count] : outcome.already_there)
        tiers.push_back(formatted("{} {}", name(tier), count));
    text += line("was there", formatted("{}{}", outcome.already(),
                                        tiers.empty() ? "" : " (" + enumerate(tiers, ", ") + ")"));
    text += line("failed", std::to_string(outcome.failed.size()));
    if (outcome.done() < outcome.total)
        text += line("left", formatted("{}; the same command continues", outcome.total - outcome.done()));
    text += line("time", duration(outcome.seconds * 1000) +
                             (outcome.built == 0
                                  ? ""
                                  : formatted(", {:.3g} built per second, {} of compiling", outcome.rate(),
                                              duration(outcome.compile_seconds * 1000))));
    if (const auto seeds = outcome.already_there.find(Origin::seed); seeds != outcome.already_there.end())
        text += line(
            "note",
            formatted("{} variants are in seed packs only, not in the cache directory, and a pack of it will "
                      "lack them; to build them, run without KILN_SEED_PACKS and --seed-pack",
                      seeds->second));
    // A missing compiler is the same reason for every variant: each reason is printed once.
    std::map<std::string, std::vector<std::string>> by_reason;
    for (const FailedVariant& one : outcome.failed)
        by_reason[one.reason].push_back(one.variant + " (" + target_text(one.target) + ")");
    for (const auto& [reason, variants] : by_reason) {
        text += "\nfailed:\n";
        for (std::size_t i = 0; i < std::min(variants.size(), kVariantsShown); ++i)
            text += "  " + variants[i] + "\n";
        if (variants.size() > kVariantsShown)
            text += formatted("  and {} more\n", variants.size() - kVariantsShown);
        text += reason + (reason.ends_with('\n') ? "" : "\n");
    }
    return text;
}

}  // namespace

int warm(const Call& call) {
    Warnings warnings(call.terminal);
    // A separate stop, which --fail-fast also requests.
    std::stop_source stop;
    const std::stop_callback on_interrupt(call.interrupts.token(), [&] { stop.request_stop(); });
    ServiceOptions options = compile_options(call, warnings);
    options.stop = stop.get_token();
    if (call.has("workers"))
        options.workers = static_cast<int>(parse_whole("--workers", call.value("workers"), 1, 1024));

    ManifestPlan plan(call, warnings, options, true);
    for (const std::string& name : call.words) plan.add(read_manifest(name));

    Outcome outcome;
    outcome.total = plan.total();
    const auto start = std::chrono::steady_clock::now();
    {
        Work work(call, stop, outcome);
        for (const auto& group : plan.groups())
            if (!stop.stop_requested()) work.run(*group);
    }
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    outcome.interrupted = call.interrupts.signal() != 0;
    std::string over_limit;
    if (outcome.may_lack_some && !outcome.interrupted && outcome.cache_problem.empty()) {
        const Cache cache = open_cache(call.options);
        outcome.not_kept = count_missing(cache, outcome.on_disk);
        if (outcome.not_kept > 0)
            over_limit = over_limit_text(cache, outcome.not_kept, outcome.on_disk.size());
    }
    if (outcome.interrupted)
        call.terminal.note(formatted(
            "interrupted; what is built is kept: {} of {}, in addition to {} that were there already.",
            outcome.built, outcome.total, outcome.already()));
    // Printed before the services are destroyed, in case a compiler hangs and the program exits without that.
    call.print(outcome_json(outcome), outcome_text(outcome));
    if (outcome.interrupted) return 128 + call.interrupts.signal();
    if (!outcome.cache_problem.empty())
        call.terminal.complain("not all that was built could be stored: " + outcome.cache_problem);
    if (!over_limit.empty())
        call.terminal.complain(over_limit + "; set a higher one and repeat the command.");
    const bool has_all = outcome.failed.empty() && outcome.cache_problem.empty() && over_limit.empty();
    return has_all ? kPassed : kNegative;
}

}  // namespace kiln::cli
