// SPDX-License-Identifier: Apache-2.0
//
// kiln cache verify, prune, clear, unpack, push, pull. Each reports how much it changed.
#include <kiln/error.h>

#include <algorithm>

#include "cli/kiln_cache.h"
#include "cli/option_values.h"
#include "cli/progress_bar.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

constexpr std::size_t kRefusalsShown = 10;  // a wrong signature key would reject all entries

std::string entries_text(std::uint64_t count) {
    return formatted("{}{}", count, count == 1 ? " entry" : " entries");
}

}  // namespace

std::string amount_text(const CacheTransfer& transfer, const std::string& verb) {
    return entries_text(transfer.entries) + " (" + bytes_text(double(transfer.bytes)) + ") " + verb;
}

int report_transfer(const Call& call, const CacheTransfer& transfer, const std::string& verb) {
    Json json;
    json["entries"] = transfer.entries;
    json["bytes"] = transfer.bytes;
    json["already_there"] = transfer.already_there;
    json["refused"] = transfer.refused;
    std::string text = amount_text(transfer, verb);
    if (transfer.already_there > 0)
        text += formatted("; {}{} there already", transfer.already_there,
                          transfer.already_there == 1 ? " was" : " were");
    if (!transfer.refused.empty()) text += formatted("; {} rejected", transfer.refused.size());
    text += "\n";
    const std::size_t shown = std::min(transfer.refused.size(), kRefusalsShown);
    for (std::size_t i = 0; i < shown; ++i) text += "rejected: " + transfer.refused[i] + "\n";
    if (shown < transfer.refused.size())
        text += formatted("and {} more; --json lists them all\n", transfer.refused.size() - shown);
    call.print(json, text);
    if (call.interrupts.signal() != 0) return 128 + call.interrupts.signal();
    return transfer.refused.empty() ? kPassed : kNegative;
}

namespace {

int report_removed(const Call& call, const CacheTransfer& gone) {
    call.print({{"entries", gone.entries}, {"bytes", gone.bytes}}, amount_text(gone, "removed") + "\n");
    return kPassed;
}

template <class Exchange>
int exchange(const Call& call, const char* what, const std::string& verb, const Exchange& run) {
    Cache cache(cache_options(call.options));
    const CacheTransfer transfer = [&] {
        ProgressBar bar(call.terminal, what);
        return run(cache, [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); });
    }();
    if (call.interrupts.signal() != 0) call.terminal.note("interrupted; what was exchanged stays.");
    return report_transfer(call, transfer, verb);
}

}  // namespace

int cache_verify(const Call& call) {
    const bool remove = call.flag("remove");
    const CacheVerification found = open_cache(call.options).verify(remove);
    Json damaged = Json::array();
    std::string text = formatted("{} sound, {} damaged{}\n", entries_text(found.sound), found.damaged.size(),
                                 remove && !found.damaged.empty() ? ", which were removed" : "");
    for (const CacheDamage& damage : found.damaged) {
        damaged.push_back({{"file", damage.file.string()}, {"reason", damage.reason}});
        text += "damaged: " + damage.file.string() + ": " + damage.reason + "\n";
    }
    if (!found.damaged.empty() && !remove) text += "Look-ups treat these as misses; --remove removes them.\n";
    call.print({{"sound", found.sound}, {"damaged", damaged}, {"removed", remove}}, text);
    return found.damaged.empty() ? kPassed : kNegative;
}

int cache_prune(const Call& call) {
    std::optional<std::uint64_t> limit;
    if (call.has("limit")) limit = parse_size("--limit", call.value("limit"));
    Cache cache = open_cache(call.options);
    return report_removed(call, cache.prune(limit ? *limit : cache.usage().limit_bytes));
}

int cache_clear(const Call& call) {
    Cache cache = open_cache(call.options);
    if (!call.flag("yes")) {
        if (!call.terminal.input_is_terminal() || !call.terminal.errors_are_terminal())
            throw UsageError("kiln cache clear asks before it removes all of " + cache.directory().string() +
                             ", and there is no terminal to answer on; add --yes.");
        if (!call.terminal.ask("remove " + entries_text(cache.usage().entries) + " from " +
                               cache.directory().string() + "?"))
            return kNegative;
    }
    return report_removed(call, cache.clear());
}

int cache_unpack(const Call& call) {
    return report_transfer(call, open_cache(call.options).unpack(call.words[0]), "stored");
}

int cache_push(const Call& call) {
    return exchange(call, "push", "sent", [&](Cache& cache, const CacheProgress& progress) {
        return cache.push(progress, call.interrupts.token());
    });
}

int cache_pull(const Call& call) {
    return exchange(call, "pull", "fetched", [&](Cache& cache, const CacheProgress& progress) {
        return cache.pull(progress, call.interrupts.token());
    });
}

}  // namespace kiln::cli
