// SPDX-License-Identifier: Apache-2.0
//
// kiln_cache, packs, and what services and caches count.
#include <chrono>
#include <string>
#include <vector>

#include "c/call.h"
#include "c/handle.h"

namespace kiln::c_api {

CacheOptions cache_options_of(const kiln_cache_options* options) {
    const kiln_cache_options known = given(options, "kiln_cache_options");
    CacheOptions result;
    if (known.directory != nullptr) result.directory = known.directory;
    result.enabled = known.disabled == 0;
    if (known.limit_bytes != 0) result.limit_bytes = known.limit_bytes;
    result.share_with_group = choice_of(known.share_with_group, "share_with_group");
    array(known.seed_packs, known.seed_pack_count, "seed_packs");
    for (std::size_t i = 0; i < known.seed_pack_count; ++i)
        result.seed_packs.emplace_back(in(known.seed_packs[i], "a path of seed_packs"));
    if (known.remote_url != nullptr) {
        RemoteOptions& remote = result.remote.emplace();
        remote.url = known.remote_url;
        remote.password_file = text_or_empty(known.remote_password_file);
        remote.ca_file = text_or_empty(known.remote_ca_file);
        remote.signature_key_file = text_or_empty(known.remote_signature_key_file);
        remote.read_only = known.remote_read_only != 0;
        if (known.remote_timeout_ms != 0) remote.timeout = std::chrono::milliseconds(known.remote_timeout_ms);
    }
    if (known.wait_limit_ms != 0) result.wait_limit = std::chrono::milliseconds(known.wait_limit_ms);
    return result;
}

kiln_counters counters_of(const Counters& counters) {
    return {
        sizeof(kiln_counters),  counters.memory_hits,     counters.disk_hits,        counters.seed_hits,
        counters.remote_hits,   counters.misses,          counters.compiles,         counters.build_failures,
        counters.waits,         counters.take_overs,      counters.rejected_entries, counters.stored_entries,
        counters.remote_stores, counters.remote_failures, counters.pruned_entries,   counters.bytes_read,
        counters.bytes_written, counters.compile_ms,      counters.saved_ms};
}

namespace {

void pass_entries(const std::vector<CacheEntry>& entries, kiln_cache_entry_function each, void* user) {
    for (const CacheEntry& entry : entries) {
        const kiln_cache_entry passed = {
            sizeof(kiln_cache_entry),
            entry.key.c_str(),
            entry.variant.c_str(),
            entry.kernel.c_str(),
            name(entry.backend).data(),
            entry.arch.c_str(),
            name(entry.kind).data(),
            entry.compiler.c_str(),
            entry.compile_ms,
            entry.bytes,
            entry.last_used ? std::chrono::system_clock::to_time_t(*entry.last_used) : int64_t{-1}};
        each(user, &passed);
    }
}

/// Runs a transfer and fills `place`, which may be NULL.
template <class Transfer>
kiln_status transferred(const char* function, kiln_cache_transfer* place, const Transfer& transfer) {
    return guarded(function, [&] {
        static thread_local LastResult keep;
        static thread_local std::vector<const char*> reasons;
        if (place != nullptr) check_result(place, "kiln_cache_transfer");
        const CacheTransfer done = transfer();
        if (place == nullptr) return;
        keep.clear();
        reasons.clear();
        for (const std::string& reason : done.refused) reasons.push_back(keep(reason));
        fill(place,
             {sizeof(kiln_cache_transfer), done.entries, done.bytes, done.already_there, reasons.data(),
              reasons.size()},
             "kiln_cache_transfer");
    });
}

}  // namespace
}  // namespace kiln::c_api

using namespace kiln::c_api;

kiln_status kiln_cache_open(const kiln_cache_options* options, kiln_cache** cache) {
    return guarded(__func__, [&] {
        kiln_cache*& place = out(cache, "cache");
        place = make<kiln_cache>({kiln::Cache(cache_options_of(options))});
    });
}

kiln_status kiln_cache_destroy(kiln_cache* cache) {
    return guarded(__func__, [&] { destroy(cache); });
}

kiln_status kiln_cache_entries(const kiln_cache* cache, kiln_cache_entry_function each, void* user) {
    return guarded(__func__, [&] { pass_entries(object(cache).value.entries(), in(each, "each"), user); });
}

kiln_status kiln_cache_usage(const kiln_cache* cache, kiln_cache_usage_info* usage, kiln_counters* counters) {
    return guarded(__func__, [&] {
        const kiln::CacheUsage now = object(cache).value.usage();
        check_result(usage, "kiln_cache_usage_info");
        if (counters != nullptr) fill(counters, counters_of(now.counters), "kiln_counters");
        fill(usage, {sizeof(kiln_cache_usage_info), now.entries, now.bytes, now.limit_bytes},
             "kiln_cache_usage_info");
    });
}

kiln_status kiln_cache_verify(kiln_cache* cache, int remove, uint64_t* sound, kiln_damage_function each,
                              void* user) {
    return guarded(__func__, [&] {
        *in(sound, "sound") = 0;
        const kiln::CacheVerification found = object(cache).value.verify(remove != 0);
        *sound = found.sound;
        if (each == nullptr) return;
        for (const kiln::CacheDamage& damage : found.damaged)
            each(user, damage.file.c_str(), damage.reason.c_str());
    });
}

kiln_status kiln_cache_prune(kiln_cache* cache, uint64_t limit_bytes, kiln_cache_transfer* transfer) {
    return transferred(__func__, transfer, [&] { return object(cache).value.prune(limit_bytes); });
}

kiln_status kiln_cache_clear(kiln_cache* cache, kiln_cache_transfer* transfer) {
    return transferred(__func__, transfer, [&] { return object(cache).value.clear(); });
}

kiln_status kiln_cache_pack(const kiln_cache* cache, const char* file, const char* const* keys, size_t count,
                            kiln_cache_transfer* transfer) {
    return transferred(__func__, transfer, [&] {
        const kiln::Cache& of = object(cache).value;
        array(keys, count, "keys");
        std::vector<std::string> wanted;
        for (size_t i = 0; i < count; ++i) wanted.emplace_back(in(keys[i], "a key"));
        return of.pack(in(file, "file"), wanted);
    });
}

kiln_status kiln_cache_unpack(kiln_cache* cache, const char* file, kiln_cache_transfer* transfer) {
    return transferred(__func__, transfer, [&] { return object(cache).value.unpack(in(file, "file")); });
}

kiln_status kiln_cache_push(kiln_cache* cache, kiln_cache_transfer* transfer) {
    return transferred(__func__, transfer, [&] { return object(cache).value.push(); });
}

kiln_status kiln_cache_pull(kiln_cache* cache, kiln_cache_transfer* transfer) {
    return transferred(__func__, transfer, [&] { return object(cache).value.pull(); });
}

kiln_status kiln_pack_entries(const char* file, kiln_cache_entry_function each, void* user) {
    return guarded(__func__, [&] {
        in(each, "each");
        pass_entries(kiln::list_pack(in(file, "file")), each, user);
    });
}
