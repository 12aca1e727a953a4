// SPDX-License-Identifier: Apache-2.0
//
// What tests of the disk tier share: keys and entries, work in a child process, and what is in a directory.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/file.h"
#include "cache/build_key.h"
#include "cache/disk_cache.h"
#include "cache/disk_lock.h"
#include "cache/entry.h"
#include "sanitized.h"

namespace kiln::test::disk {

inline BuildKey key_of(const std::string& text) {
    return make_build_key({Backend::host, "x86-64-v3", {}}, "compiler", {}, {"f.cu", "f", text, {}});
}

inline Binary binary_of(std::size_t bytes, unsigned char fill) {
    Binary binary;
    binary.kind = BinaryKind::shared_object;
    binary.entry = "f";
    binary.bytes = std::vector<std::byte>(bytes, std::byte{fill});
    return binary;
}

inline Bytes entry_of(const BuildKey& key, std::size_t bytes, unsigned char fill = 1) {
    return encode_entry(key, binary_of(bytes, fill));
}

inline DiskCache::Stored store(DiskCache& cache, const std::string& text, std::size_t bytes = 100,
                               unsigned char fill = 1) {
    const auto key = key_of(text);
    return cache.store(key.digest, entry_of(key, bytes, fill));
}

inline bool has(const DiskCache& cache, const std::string& text) {
    return cache.peek(key_of(text)).binary.has_value();
}

inline std::filesystem::path path_of(const DiskCache& cache, const std::string& text) {
    return cache.entry_path(key_of(text).digest);
}

inline std::size_t count_files(const std::filesystem::path& directory) {
    std::size_t count = 0;
    std::error_code error;
    for (const auto& item : std::filesystem::recursive_directory_iterator(directory, error))
        count += item.is_regular_file();
    return count;
}

inline std::size_t count_temporaries(const DiskCache& cache) {
    return count_files(cache.directory() / "v1" / "tmp");
}

/// The lock of stores and operators, once it is free.
inline std::optional<DiskLock> lock_of(const DiskCache& cache) {
    const auto v1 = cache.directory() / "v1";
    const FileDescriptor version(::open(v1.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return DiskLock::acquire(version.value(), std::chrono::seconds(10));
}

/// Sets both times of a file, in seconds from now.
inline void set_age(const std::filesystem::path& file, double seconds_ago) {
    timespec now;
    ::clock_gettime(CLOCK_REALTIME, &now);
    const auto ns = static_cast<std::int64_t>(seconds_ago * 1e9);
    const std::int64_t time_ns = std::int64_t{now.tv_sec} * 1000000000 + now.tv_nsec - ns;
    const timespec time{static_cast<time_t>(time_ns / 1000000000), static_cast<long>(time_ns % 1000000000)};
    const std::array<timespec, 2> times = {time, time};
    ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times.data(), AT_SYMLINK_NOFOLLOW), 0);
}

/// Work in a child process, so that it may be killed, or change who it is.
inline pid_t start_child(const std::function<int()>& work) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child != 0) return child;
    int status = 99;
    try {
        status = work();
    } catch (const std::exception& exception) {
        std::fprintf(stderr, "in a child: %s\n", exception.what());
    }
    std::fflush(nullptr);
    ::_exit(status);
}

/// The exit status, or minus the signal that ended it.
inline int wait_for(pid_t child) {
    int status = 0;
    if (::waitpid(child, &status, 0) != child) return -1000;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

inline int in_child(const std::function<int()>& work) { return wait_for(start_child(work)); }

/// In a child: says what failed, and gives the exit status for it.
inline int fail_in_child(const std::string& what) {
    std::fprintf(stderr, "in a child: %s\n", what.c_str());
    return 1;
}

/// A temporary directory that a plain user (nobody, when the tests run as root) owns.
constexpr unsigned kNobody = 65534;
inline bool is_root() { return ::geteuid() == 0; }
inline void become_plain_user() {
    if (!is_root()) return;
    if (::setresgid(kNobody, kNobody, kNobody) != 0 || ::setresuid(kNobody, kNobody, kNobody) != 0)
        throw std::runtime_error("can't become a plain user");
}
inline void give_to_plain_user(const std::filesystem::path& path) {
    if (is_root() && ::chown(path.c_str(), kNobody, kNobody) != 0) FAIL() << path << " can't be given away";
}

using test::kSanitized;

}  // namespace kiln::test::disk
