// SPDX-License-Identifier: Apache-2.0
//
// The functions for builds: look-ups, stores within the limit, counters. Entries are at <directory>/v1/<first
// two digits>/<digest>.kiln.
#include "cache/disk_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <limits>
#include <span>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/words.h"
#include "cache/disk_lock.h"
#include "cache/disk_state.h"
#include "cache/disk_temporary.h"
#include "cache/entry.h"

namespace kiln {
namespace {

const char* name_of(DiskCache::Memory which) {
    return which == DiskCache::Memory::identities ? kIdentitiesName : kIncludesName;
}

constexpr std::chrono::milliseconds kStoreLockLimit{1000};
constexpr std::chrono::milliseconds kCountersLockLimit{2000};
/// Sizes are counted again after this time, in case the running total has become wrong.
constexpr std::int64_t kCountAgain_s = 600;
/// Pruning goes this far below the limit, so that not every store prunes.
constexpr std::uint64_t kSlackShare = 20;
/// More than any limit: the next reader counts again.
constexpr std::uint64_t kTooMany = std::numeric_limits<std::uint64_t>::max() / 2;

std::filesystem::path normal_path(const std::filesystem::path& directory) {
    std::error_code error;
    auto path = std::filesystem::absolute(directory, error).lexically_normal();
    if (error || path.empty()) path = directory;
    return path.has_filename() ? path : path.parent_path();
}

DiskOptions with_absolute_path(DiskOptions options) {
    options.directory = normal_path(options.directory);
    return options;
}

// The size of the file that an entry replaces.
std::uint64_t size_of_old(int shard, const std::string& digest) {
    struct stat status;
    if (::fstatat(shard, file_name(digest).c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return 0;
    return S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_size) : 0;
}

// For what must exist: throws the errors from which a store's error is made.
Opened required(Opened opened, const std::filesystem::path& path) {
    if (opened) return opened;
    if (opened.refusal.empty()) throw std::system_error(ENOENT, std::generic_category(), path.string());
    throw std::runtime_error(path.string() + " can't be used: " + opened.refusal);
}

}  // namespace

DiskCache::DiskCache(DiskOptions options)
    : options_(with_absolute_path(std::move(options))), locks_(made_directory(), options_.trust) {}

const std::filesystem::path& DiskCache::made_directory() const {
    (void)probe();
    return directory();
}

std::string DiskCache::problem() const {
    const std::lock_guard lock(mutex_);
    return reading_problem_.empty() ? storing_problem_ : reading_problem_;
}

void DiskCache::note_reading(std::string problem) const {
    const std::lock_guard lock(mutex_);
    usable_ = problem.empty();
    reading_problem_ = std::move(problem);
}

void DiskCache::note_storing(std::string problem) const {
    const std::lock_guard lock(mutex_);
    storing_problem_ = std::move(problem);
}

bool DiskCache::probe() const {
    const Opened root = make_root(directory(), options_.trust);
    if (!root) {
        note_reading("the cache directory " + directory().string() + " can't be used: " + root.refusal);
        return false;
    }
    note_storing(::faccessat(root.fd(), ".", W_OK, AT_EACCESS) == 0
                     ? ""
                     : "entries can't be stored in " + directory().string() + ": " + std::strerror(errno));
    (void)open_version(Make::nothing);
    return usable_;
}

bool DiskCache::readable() const { return usable_ || probe(); }

std::filesystem::path DiskCache::entry_path(const std::string& digest) const {
    return directory() / kVersion / shard_name(digest) / file_name(digest);
}

Opened DiskCache::open_version(Make make) const {
    Opened root =
        make == Make::all ? make_root(directory(), options_.trust) : open_root(directory(), options_.trust);
    if (!root) {
        if (!root.refusal.empty())
            note_reading("the cache directory " + directory().string() + " can't be used: " + root.refusal);
        return root;
    }
    Opened version = open_directory(root.fd(), kVersion, options_.trust);
    note_reading(version.refusal.empty() ? ""
                                         : "the cache directory " + (directory() / kVersion).string() +
                                               " can't be used: " + version.refusal);
    if (!version && version.refusal.empty() && make != Make::nothing)
        version = make_directory(root.fd(), kVersion, options_.trust);
    return version;
}

Opened DiskCache::open_entry(const std::string& digest) const {
    const auto named = [](Opened opened, const std::filesystem::path& path) {
        if (!opened.refusal.empty()) opened.refusal = path.string() + " was not used: " + opened.refusal;
        return opened;
    };
    if (!is_digest(digest)) return {};
    const Opened version = open_version(Make::nothing);
    if (!version) return {};
    Opened shard = open_directory(version.fd(), shard_name(digest), options_.trust);
    if (!shard) return named(std::move(shard), entry_path(digest).parent_path());
    Opened file = open_file(shard.fd(), file_name(digest), options_.trust, kMaxEntryBytes);
    return file ? std::move(file) : named(std::move(file), entry_path(digest));
}

Lookup DiskCache::look_up(const BuildKey& key, bool mark) const {
    Lookup result;
    const auto reject = [&](const std::string& why) {
        result.rejected = result.place + " was not used: " + why;
        return std::move(result);
    };
    try {
        const Opened file = open_entry(key.digest);
        result.rejected = file.refusal;
        if (!file && file.refusal.empty()) return result;
        result.place = entry_path(key.digest).string();
        if (!file) return result;
        const auto bytes = read_all(file);
        if (!bytes && has_vanished(errno)) return {};
        if (!bytes) return reject(std::strerror(errno));
        std::string reason;
        auto entry = decode_entry(*bytes, reason);
        if (!entry) return reject(reason);
        if (entry->key_text != key.text) return reject("it was made from other ingredients");
        // Pruning uses this time, since file systems may not record access times.
        if (mark) (void)::futimens(file.fd(), nullptr);
        result.binary = std::move(entry->binary);
        result.entry = *bytes;
        return result;
    } catch (const std::exception& exception) {
        return reject(exception.what());
    }
}

Lookup DiskCache::find(const BuildKey& key) const { return look_up(key, true); }
Lookup DiskCache::peek(const BuildKey& key) const { return look_up(key, false); }

DiskCache::Stored DiskCache::store(const std::string& digest, const Bytes& entry) {
    Stored refused;
    if (const auto limit = std::min(options_.limit_bytes, kMaxEntryBytes); entry.size() > limit) {
        refused.reason = "an entry of " + bytes_text(entry.size()) +
                         " is not stored, since the cache's limit is " + bytes_text(limit);
        return refused;
    }
    if (!is_digest(digest)) {
        refused.reason = "'" + digest + "' is no digest";
        return refused;
    }
    for (bool again = true;; again = false) {
        try {
            auto stored = try_store(digest, entry);
            note_storing("");
            return stored;
        } catch (const std::exception& exception) {
            // Another process may have removed the temporary file, or all directories.
            const auto* error = dynamic_cast<const std::system_error*>(&exception);
            if (again && error != nullptr && has_vanished(error->code().value())) continue;
            note_storing("entries can't be stored in " + directory().string() + ": " + exception.what());
            return refused;
        }
    }
}

DiskCache::Stored DiskCache::try_store(const std::string& digest, const Bytes& entry) {
    const Trust trust = options_.trust;
    const Opened version = required(open_version(Make::all), directory() / kVersion);
    const Opened shard =
        required(make_directory(version.fd(), shard_name(digest), trust), entry_path(digest).parent_path());
    if (!swept_.exchange(true)) sweep_temporaries(version.fd(), trust);
    DiskTemporary temporary(version.fd(), trust);
    temporary.write({entry.data(), entry.size()});
    temporary.sync();

    Stored stored;
    {
        // Without the lock the state is not reliable, so everything is counted.
        const auto lock = DiskLock::acquire(version.fd(), kStoreLockLimit);
        const Evicted evicted = make_room(version.fd(), digest, entry.size(), lock.has_value());
        stored.pruned_entries = evicted.entries;
        stored.pruned_bytes = evicted.bytes;
        temporary.publish(shard.fd(), file_name(digest));
        // A holder of the lock that counted in between has missed this entry.
        if (!lock) note_entry_bytes(version.fd(), std::nullopt, trust);
    }
    // The content was synced before it got its name, so that no power failure leaves a part of it. The name is not
    // synced, which takes milliseconds while the caller waits: a power failure may cost an entry, and that one compile.
    stored.stored = true;
    return stored;
}

// Written before the entry, so that a process that dies in between leaves a state that is too large, never
// too small. Everything is counted again before entries are removed because of it.
Evicted DiskCache::make_room(int version, const std::string& digest, std::uint64_t bytes, bool locked) const {
    std::string damage;
    DiskState before = read_state(version, options_.trust, damage);
    if (locked && before.counted_at == 0) {
        // Marks the state, so that a store without the lock during this count is noticed.
        note_entry_bytes(version, kTooMany, options_.trust);
        before = read_state(version, options_.trust, damage);
    }
    DiskState state = before;
    const std::int64_t now = ::time(nullptr);
    const Opened shard = open_directory(version, shard_name(digest), options_.trust);
    const std::uint64_t old_bytes = shard ? size_of_old(shard.fd(), digest) : 0;
    const std::uint64_t room = options_.limit_bytes - bytes;

    Evicted evicted;
    const bool is_known =
        locked && state.counted_at > 0 && state.counted_at <= now && now - state.counted_at <= kCountAgain_s;
    if (!is_known || state.entry_bytes - std::min(state.entry_bytes, old_bytes) > room) {
        auto others = scan_entries(version, options_.trust);
        std::erase_if(others, [&](const DiskFile& file) { return file.digest == digest; });
        std::uint64_t rest = sum_bytes(others);
        const std::uint64_t slack = std::min(room, options_.limit_bytes / kSlackShare);
        const std::uint64_t target = rest > room ? room - slack : std::numeric_limits<std::uint64_t>::max();
        evicted = evict(version, std::move(others), target, options_.trust);
        rest -= evicted.bytes;
        if (rest > room) throw std::runtime_error("there is no room within its limit: " + evicted.failure);
        state.entry_bytes = rest + old_bytes;
        state.counted_at = now;
    }
    state.entry_bytes += bytes - std::min(bytes, old_bytes);
    // Others may have stored meanwhile: without the lock after a time limit, or from other machines.
    const DiskState there = read_state(version, options_.trust, damage);
    state.counters = there.counters;
    state.entry_bytes += there.entry_bytes - std::min(there.entry_bytes, before.entry_bytes);
    if (!locked || there.counted_at == 0) state.counted_at = 0;
    write_state(version, state, options_.trust);
    return evicted;
}

void DiskCache::add(const Counters& counters) {
    if (counters == Counters{}) return;
    try {
        const Opened version = open_version(Make::version);
        if (!version) return;
        const auto lock = DiskLock::acquire(version.fd(), kCountersLockLimit);
        if (!lock) return;
        std::string damage;
        DiskState state = read_state(version.fd(), options_.trust, damage);
        state.counters += counters;
        write_state(version.fd(), state, options_.trust);
    } catch (const std::exception&) {
        // The counts are lost.
    }
}

Lookup DiskCache::find_of_any_compiler(const BuildKey& open_key, Includes includes, bool mark) const {
    try {
        auto all = items();
        std::sort(all.begin(), all.end(), [](const Item& a, const Item& b) {
            return std::tie(b.last_used, a.digest) < std::tie(a.last_used, b.digest);
        });
        for (const auto& item : all) {
            auto text = key_text(item.digest);
            if (!text || !is_made_by_any(*text, open_key.text, includes)) continue;
            BuildKey key{item.digest, std::move(*text)};
            Lookup lookup = look_up(key, mark);
            if (!lookup.binary) continue;
            lookup.key = std::move(key);
            return lookup;
        }
    } catch (const std::exception&) {
        // Reported by problem().
    }
    return {};
}

std::string DiskCache::read_memory(Memory which) const {
    try {
        const Opened version = open_version(Make::nothing);
        if (!version) return {};
        const Opened file = open_file(version.fd(), name_of(which), options_.trust, kMaxMemoryBytes);
        const auto bytes = file ? read_all(file) : std::nullopt;
        return bytes ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size())
                     : std::string();
    } catch (const std::exception&) {
        return {};
    }
}

void DiskCache::write_memory(Memory which, const std::string& text) {
    try {
        const Opened version = open_version(Make::all);
        if (!version) return;
        DiskTemporary temporary(version.fd(), options_.trust);
        temporary.write(std::as_bytes(std::span(text)));
        temporary.publish(version.fd(), name_of(which));
    } catch (const std::exception&) {
        // It is computed again.
    }
}

}  // namespace kiln
