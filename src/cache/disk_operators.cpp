// SPDX-License-Identifier: Apache-2.0
//
// The functions of DiskCache for operators: listing, sizes, verifying, pruning, clearing.
#include <fcntl.h>
#include <kiln/error.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>

#include "cache/disk_cache.h"
#include "cache/disk_lock.h"
#include "cache/disk_state.h"
#include "cache/disk_temporary.h"
#include "cache/entry.h"

namespace kiln {
namespace {

constexpr std::chrono::milliseconds kOperatorLockLimit{5000};
constexpr std::uint64_t kMaxKeyBytes = std::uint64_t{64} << 20;

bool read_exactly(int fd, std::span<std::byte> bytes, std::uint64_t offset) {
    std::size_t filled = 0;
    while (filled < bytes.size()) {
        const ssize_t count =
            ::pread(fd, bytes.data() + filled, bytes.size() - filled, static_cast<off_t>(offset + filled));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        filled += static_cast<std::size_t>(count);
    }
    return true;
}

// Empty when the file is a valid entry of that digest, or no longer exists. Throws std::system_error when it
// can't be checked.
std::string check_entry(int shard, const std::string& digest, Trust trust) {
    const Opened file = unless_short(open_file(shard, file_name(digest), trust, kMaxEntryBytes));
    if (!file) return file.refusal;
    const auto bytes = read_all(file);
    if (!bytes) return has_vanished(errno) ? "" : std::strerror(errno);
    std::string reason;
    decode_entry_of(digest, *bytes, reason);
    return reason;
}

// A directory of entries or of temporary files, or v1 itself, and what is wrong with a name in it; empty:
// nothing.
struct Place {
    std::filesystem::path path;
    Opened directory;
    std::function<std::string(int directory, const std::string& name)> judge;
};

Place shard_place(int version, const std::filesystem::path& path, const std::string& shard, Trust trust) {
    return {path / shard, unless_short(open_directory(version, shard, trust)),
            [=](int directory, const std::string& name) {
                const auto digest = digest_in(name);
                if (!digest) return std::string("no entry has such a name");
                if (!digest->starts_with(shard))
                    return "it belongs into the directory " + shard_name(*digest);
                return check_entry(directory, *digest, trust);
            }};
}

Place temporary_place(int version, const std::filesystem::path& path, Trust trust) {
    return {path / kTemporaryDirectory, unless_short(open_directory(version, kTemporaryDirectory, trust)),
            [](int directory, const std::string& name) {
                return std::string(is_left_behind(directory, name) ? "its writer died" : "");
            }};
}

std::string check_top(int version, const std::string& name, Trust trust) {
    std::string reason;
    if (name == kStateName)
        read_state(version, trust, reason);
    else if (name == kIdentitiesName || name == kIncludesName)
        reason = open_file(version, name, trust, kMaxMemoryBytes).refusal;
    else if (name != kTemporaryDirectory && !is_shard_name(name))
        reason = "it is no part of the cache";
    else
        reason = unless_short(open_directory(version, name, trust)).refusal;
    return reason;
}

// Files, links, and directories that are empty.
bool remove_name(int directory, const std::string& name) {
    return ::unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT ||
           ::unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0;
}

}  // namespace

Opened DiskCache::version_for_operator() const {
    Opened version = open_version(Make::nothing);
    if (!version && !readable()) throw CacheError(problem());
    return version;
}

void DiskCache::change(const std::function<void(int, bool)>& work) {
    try {
        const Opened version = version_for_operator();
        if (!version) return;
        const auto lock = DiskLock::acquire(version.fd(), kOperatorLockLimit);
        work(version.fd(), lock.has_value());
    } catch (const std::system_error& error) {
        throw CacheError("the cache directory " + directory().string() +
                         " can't be changed: " + error.what());
    }
}

std::vector<DiskCache::Item> DiskCache::items() const {
    try {
        std::vector<Item> items;
        const Opened version = version_for_operator();
        if (!version) return items;
        for (auto& file : scan_entries(version.fd(), options_.trust)) {
            const std::chrono::nanoseconds used(file.used_ns);
            items.push_back({file.digest, entry_path(file.digest), file.bytes,
                             std::chrono::system_clock::time_point(
                                 std::chrono::duration_cast<std::chrono::system_clock::duration>(used))});
        }
        return items;
    } catch (const std::system_error& error) {
        throw CacheError("the cache directory " + directory().string() + " can't be read: " + error.what());
    }
}

Bytes DiskCache::read(const std::string& digest, std::string& reason) const {
    const Opened file = open_entry(digest);
    reason = file.refusal;
    if (!file) {
        if (reason.empty()) reason = usable_ ? "there is no entry " + digest : problem();
        return {};
    }
    const auto bytes = read_all(file);
    std::string damage;
    if (!bytes) damage = std::strerror(errno);
    if (bytes && decode_entry_of(digest, *bytes, damage)) return *bytes;
    reason = entry_path(digest).string() + " was not used: " + damage;
    return {};
}

std::optional<std::string> DiskCache::key_text(const std::string& digest) const {
    const Opened file = open_entry(digest);
    std::array<std::byte, kEntryHeadBytes> head;
    if (!file || !read_exactly(file.fd(), head, 0)) return std::nullopt;
    const auto place = find_key_text(head, static_cast<std::uint64_t>(file.status.st_size));
    if (!place || place->length > kMaxKeyBytes) return std::nullopt;
    std::string text(place->length, '\0');
    if (!read_exactly(file.fd(), std::as_writable_bytes(std::span(text)), place->offset)) return std::nullopt;
    return text;
}

CacheUsage DiskCache::usage() const {
    CacheUsage usage;
    usage.limit_bytes = options_.limit_bytes;
    for (const auto& item : items()) {
        ++usage.entries;
        usage.bytes += item.bytes;
    }
    try {
        const Opened version = version_for_operator();
        std::string damage;
        if (version) usage.counters = read_state(version.fd(), options_.trust, damage).counters;
        return usage;
    } catch (const std::system_error& error) {
        throw CacheError("the cache directory " + directory().string() + " can't be read: " + error.what());
    }
}

CacheVerification DiskCache::verify(bool remove) {
    CacheVerification result;
    try {
        const Trust trust = options_.trust;
        const Place top{
            directory() / kVersion, version_for_operator(),
            [trust](int directory, const std::string& name) { return check_top(directory, name, trust); }};
        if (!top.directory) return result;
        const int version = top.directory.fd();
        const auto check = [&](const Place& place, const std::string& name) {
            std::string reason = place.judge(place.directory.fd(), name);
            if (reason.empty()) return true;
            if (remove) {
                // Checked again with the lock, since it may have been replaced.
                const auto lock = DiskLock::acquire(version, kOperatorLockLimit);
                if (place.judge(place.directory.fd(), name).empty()) return true;
                if (!remove_name(place.directory.fd(), name))
                    reason += "; it can't be removed: " + std::string(std::strerror(errno));
            }
            result.damaged.push_back({place.path / name, std::move(reason)});
            return false;
        };
        for (const auto& name : names_in(version)) {
            if (!check(top, name) || name == kStateName || name == kIdentitiesName || name == kIncludesName)
                continue;
            const bool is_shard = name != kTemporaryDirectory;
            const Place place = is_shard ? shard_place(version, top.path, name, trust)
                                         : temporary_place(version, top.path, trust);
            if (!place.directory) continue;
            for (const auto& item : names_in(place.directory.fd()))
                if (check(place, item) && is_shard) ++result.sound;
        }
        return result;
    } catch (const std::system_error& error) {
        throw CacheError("the cache directory " + directory().string() +
                         " can't be verified: " + error.what());
    }
}

CacheTransfer DiskCache::prune(std::uint64_t limit_bytes) {
    CacheTransfer gone;
    change([&](int version, bool locked) {
        sweep_temporaries(version, options_.trust);
        auto files = scan_entries(version, options_.trust);
        const std::uint64_t before = sum_bytes(files);
        const Evicted evicted = evict(version, std::move(files), limit_bytes, options_.trust);
        note_entry_bytes(version, locked ? std::optional(before - evicted.bytes) : std::nullopt,
                         options_.trust);
        gone.entries = evicted.entries;
        gone.bytes = evicted.bytes;
        if (before - evicted.bytes > limit_bytes)
            throw CacheError("the cache directory " + directory().string() +
                             " can't be pruned: " + evicted.failure);
    });
    return gone;
}

CacheTransfer DiskCache::clear() {
    CacheTransfer gone;
    change([&](int version, bool) {
        const Evicted evicted =
            evict(version, scan_entries(version, options_.trust), std::nullopt, options_.trust);
        sweep_temporaries(version, options_.trust, true);
        for (const char* name : {kStateName, kIdentitiesName, kIncludesName})
            (void)::unlinkat(version, name, 0);
        for (const auto& name : names_in(version))
            if (is_shard_name(name)) (void)::unlinkat(version, name.c_str(), AT_REMOVEDIR);
        gone.entries = evicted.entries;
        gone.bytes = evicted.bytes;
        if (!evicted.failure.empty())
            throw CacheError("the cache directory " + directory().string() +
                             " can't be cleared: " + evicted.failure);
    });
    return gone;
}

}  // namespace kiln
