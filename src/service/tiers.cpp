// SPDX-License-Identifier: Apache-2.0
//
// Look-ups in the order disk, packs, remote; only then, entries with other headers.
#include "service/tiers.h"

#include <utility>

#include "base/stopwatch.h"
#include "cache/entry.h"
#include "format/format.h"

namespace kiln {

Tiers::Tiers(CacheSetup setup, ServiceEvents& events) : setup_(std::move(setup)), events_(events) {
    if (!setup_.no_directory.empty()) events_.warn_once(setup_.no_directory);
    if (setup_.disk) tell_of(Origin::disk, setup_.disk->problem(), "; new kernels are kept in memory only");
    for (const auto& pack : setup_.seeds) tell_of(Origin::seed, pack.problem(), "");
}

void Tiers::tell_of(Origin tier, const std::string& problem, const std::string& consequence) {
    if (problem.empty()) return;
    const std::string text = problem + consequence;
    events_.trace({TraceKind::unavailable, tier, {}, {}, 0, 0, text});
    // A problem may be worded by the step that met it; one line a tier is enough. Packs are several.
    events_.warn_once(tier == Origin::seed ? text : std::string(name(tier)), text);
}

std::optional<Tiers::Hit> Tiers::accept(const Wanted& wanted, Lookup lookup, Origin origin,
                                        double elapsed_ms) {
    if (!lookup.rejected.empty() && !wanted.again) {
        events_.count(&Counters::rejected_entries);
        events_.trace(
            {TraceKind::reject, origin, wanted.key.digest, wanted.variant, elapsed_ms, 0, lookup.rejected});
        events_.warn_once(lookup.rejected);
    }
    if (!lookup.binary) return std::nullopt;
    if (wanted.refused != nullptr && lookup.binary->bytes == *wanted.refused) return std::nullopt;
    events_.count(origin == Origin::disk   ? &Counters::disk_hits
                  : origin == Origin::seed ? &Counters::seed_hits
                                           : &Counters::remote_hits);
    events_.count(&Counters::bytes_read, lookup.entry.size());
    events_.count(&Counters::saved_ms, static_cast<std::uint64_t>(lookup.binary->compile_ms));
    events_.trace({TraceKind::hit, origin, wanted.key.digest, wanted.variant, elapsed_ms, lookup.entry.size(),
                   lookup.place});
    return Hit{std::move(*lookup.binary), origin, std::move(lookup.key)};
}

std::optional<Tiers::Hit> Tiers::find(const Wanted& wanted) {
    if (wanted.has_compiler)
        if (auto hit = find_on_disk(wanted)) return hit;
    for (std::size_t i = 0; i < setup_.seeds.size(); ++i) {
        const Stopwatch watch;
        auto lookup = wanted.has_compiler ? setup_.seeds[i].find(wanted.key) : Lookup{};
        if (auto hit = accept(wanted, std::move(lookup), Origin::seed, watch.elapsed_ms())) return hit;
        if (auto hit = find_open_in_seed(wanted, i, Includes::same)) return hit;
    }
    if (auto hit = find_open_on_disk(wanted, Includes::same)) return hit;
    return wanted.has_compiler ? find_remotely(wanted) : std::nullopt;
}

std::optional<Tiers::Hit> Tiers::find_with_any_includes(const Wanted& wanted) {
    if (wanted.open == nullptr || !wanted.open->any_includes) return std::nullopt;
    for (std::size_t i = 0; i < setup_.seeds.size(); ++i)
        if (auto hit = find_open_in_seed(wanted, i, Includes::any)) return hit;
    return find_open_on_disk(wanted, Includes::any);
}

std::optional<Tiers::Hit> Tiers::find_open_in_seed(const Wanted& wanted, std::size_t seed,
                                                   Includes includes) {
    if (wanted.open == nullptr || !wanted.open->in_seed(setup_, seed)) return std::nullopt;
    const Stopwatch watch;
    auto lookup = setup_.seeds[seed].find_of_any_compiler(wanted.open->key, includes);
    return accept(wanted, std::move(lookup), Origin::seed, watch.elapsed_ms());
}

std::optional<Tiers::Hit> Tiers::find_open_on_disk(const Wanted& wanted, Includes includes) {
    if (wanted.open == nullptr || !wanted.open->everywhere || !setup_.disk || !setup_.disk->readable())
        return std::nullopt;
    const Stopwatch watch;
    auto lookup = setup_.disk->find_of_any_compiler(wanted.open->key, includes, true);
    return accept(wanted, std::move(lookup), Origin::disk, watch.elapsed_ms());
}

std::optional<Tiers::Hit> Tiers::find_on_disk(const Wanted& wanted) {
    if (!setup_.disk || !setup_.disk->readable()) return std::nullopt;
    const Stopwatch watch;
    auto lookup = setup_.disk->find(wanted.key);
    return accept(wanted, std::move(lookup), Origin::disk, watch.elapsed_ms());
}

std::optional<Tiers::Hit> Tiers::find_remotely(const Wanted& wanted) {
    if (!setup_.remote) return std::nullopt;
    const Stopwatch watch;
    auto lookup = setup_.remote->find(wanted.key);
    tell_of(Origin::remote, setup_.remote->problem(), "");
    const Bytes entry = lookup.entry;
    auto hit = accept(wanted, std::move(lookup), Origin::remote, watch.elapsed_ms());
    if (hit) store_on_disk(wanted, entry);
    return hit;
}

bool Tiers::store_on_disk(const Wanted& wanted, const Bytes& entry) {
    if (!setup_.disk || !setup_.disk->readable()) return false;
    const auto result = setup_.disk->store(wanted.key.digest, entry);
    if (result.pruned_entries > 0) {
        events_.count(&Counters::pruned_entries, result.pruned_entries);
        const std::string detail = formatted("{} entries", result.pruned_entries);
        events_.trace({TraceKind::prune, Origin::disk, {}, {}, 0, result.pruned_bytes, detail});
    }
    if (!result.stored) {
        if (result.reason.empty())
            tell_of(Origin::disk, setup_.disk->problem(), "; new kernels are kept in memory only");
        else
            events_.warn_once(result.reason);  // about this entry alone
        return false;
    }
    events_.count(&Counters::stored_entries);
    events_.count(&Counters::bytes_written, entry.size());
    events_.trace({TraceKind::store, Origin::disk, wanted.key.digest, wanted.variant, 0, entry.size(), {}});
    return true;
}

bool Tiers::store(const Wanted& wanted, const Binary& binary) {
    if (!setup_.disk && !setup_.remote) return false;
    const Bytes entry = encode_entry(wanted.key, binary);
    const bool stored = store_on_disk(wanted, entry);
    if (setup_.remote && !setup_.remote->read_only()) {
        if (setup_.remote->store(wanted.key.digest, entry)) {
            events_.count(&Counters::remote_stores);
            events_.count(&Counters::bytes_written, entry.size());
            events_.trace(
                {TraceKind::store, Origin::remote, wanted.key.digest, wanted.variant, 0, entry.size(), {}});
        }
        tell_of(Origin::remote, setup_.remote->problem(), "");
    }
    return stored;
}

LocalLocks* Tiers::locks() {
    if (!setup_.disk || !setup_.disk->readable() || !setup_.disk->problem().empty()) return nullptr;
    return &setup_.disk->locks();
}

RemoteCache* Tiers::leases() const {
    return setup_.remote && !setup_.remote->read_only() ? setup_.remote.get() : nullptr;
}

Counters Tiers::counters() const {
    Counters counters = events_.counters();
    if (setup_.remote) counters.remote_failures = setup_.remote->failures();
    return counters;
}

void Tiers::flush() {
    if (!setup_.disk || !setup_.disk->problem().empty()) return;
    setup_.disk->add(events_.take_new(counters()));
}

}  // namespace kiln
