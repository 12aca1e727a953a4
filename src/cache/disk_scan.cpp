// SPDX-License-Identifier: Apache-2.0
//
// Listing and eviction. Readers do not interfere: a process that has opened a removed file can still read it.
#include "cache/disk_scan.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <tuple>

#include "cache/disk_files.h"

namespace kiln {
namespace {

constexpr std::string_view kSuffix = ".kiln";
constexpr std::size_t kDigestLength = 64;
constexpr std::int64_t kNsPerS = 1000000000;

bool is_hexadecimal(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::int64_t nanoseconds(const timespec& time) {
    constexpr std::int64_t kMax_s = 9000000000;  // file systems hold times beyond what fits here
    return std::clamp(std::int64_t{time.tv_sec}, -kMax_s, kMax_s) * kNsPerS + std::int64_t{time.tv_nsec};
}

std::int64_t now_ns() {
    timespec now;
    ::clock_gettime(CLOCK_REALTIME, &now);
    return nanoseconds(now);
}

void set_time(int version, const DiskFile& file, std::int64_t time_ns, Trust trust) {
    const Opened shard = open_directory(version, shard_name(file.digest), trust);
    const timespec time{static_cast<time_t>(time_ns / kNsPerS), static_cast<long>(time_ns % kNsPerS)};
    const std::array<timespec, 2> times = {time, time};
    if (shard)
        (void)::utimensat(shard.fd(), file_name(file.digest).c_str(), times.data(), AT_SYMLINK_NOFOLLOW);
}

// 0, or an errno.
int remove_entry(int version, const DiskFile& file, Trust trust) {
    const Opened shard = open_directory(version, shard_name(file.digest), trust);
    if (!shard) return shard.refusal.empty() ? 0 : EACCES;
    return ::unlinkat(shard.fd(), file_name(file.digest).c_str(), 0) == 0 || has_vanished(errno) ? 0 : errno;
}

}  // namespace

bool is_digest(std::string_view text) { return text.size() == kDigestLength && is_hexadecimal(text); }

std::string shard_name(std::string_view digest) { return std::string(digest.substr(0, 2)); }

std::string file_name(std::string_view digest) { return std::string(digest).append(kSuffix); }

std::optional<std::string> digest_in(std::string_view file_name) {
    if (!file_name.ends_with(kSuffix)) return std::nullopt;
    file_name.remove_suffix(kSuffix.size());
    return is_digest(file_name) ? std::optional<std::string>(file_name) : std::nullopt;
}

bool is_shard_name(std::string_view name) { return name.size() == 2 && is_hexadecimal(name); }

std::vector<DiskFile> scan_entries(int version, Trust trust) {
    std::vector<DiskFile> files;
    for (const auto& name : names_in(version)) {
        if (!is_shard_name(name)) continue;
        const Opened shard = unless_short(open_directory(version, name, trust));
        if (!shard) continue;
        for (const auto& item : names_in(shard.fd())) {
            auto digest = digest_in(item);
            struct stat status;
            if (!digest || !digest->starts_with(name) ||
                ::fstatat(shard.fd(), item.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
                !S_ISREG(status.st_mode))
                continue;
            files.push_back({std::move(*digest), static_cast<std::uint64_t>(status.st_size),
                             nanoseconds(status.st_mtim)});
        }
    }
    return files;
}

std::uint64_t sum_bytes(const std::vector<DiskFile>& files) {
    std::uint64_t sum = 0;
    for (const auto& file : files) sum += file.bytes;
    return sum;
}

Evicted evict(int version, std::vector<DiskFile> files, std::optional<std::uint64_t> target_bytes,
              Trust trust) {
    Evicted evicted;
    std::uint64_t bytes = sum_bytes(files);
    std::sort(files.begin(), files.end(), [](const DiskFile& a, const DiskFile& b) {
        return std::tie(a.used_ns, a.digest) < std::tie(b.used_ns, b.digest);
    });
    std::int64_t now = now_ns();
    for (const auto& file : files) {
        if (!target_bytes || bytes > *target_bytes) {
            const int error = remove_entry(version, file, trust);
            if (error == 0) {
                bytes -= file.bytes;
                evicted.bytes += file.bytes;
                ++evicted.entries;
                continue;
            }
            evicted.failure = file_name(file.digest) + " can't be removed: " + std::strerror(error);
        }
        // One nanosecond after the other, which keeps their order.
        if (file.used_ns > now) set_time(version, file, now++, trust);
    }
    return evicted;
}

}  // namespace kiln
