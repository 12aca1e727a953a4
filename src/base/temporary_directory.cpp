// SPDX-License-Identifier: Apache-2.0
//
// TemporaryDirectory. The owner holds a flock on the directory, which the kernel gives up when the process ends,
// however it ends. So a directory that can be locked is no longer in use. One that was just created may not be
// locked yet, so new directories are skipped.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// No user gives a directory such a name: what has it is Kiln's, and may be removed.
constexpr std::string_view kTemporaryPrefix = "kiln-tmp-9d3f6be2-";
constexpr std::string_view kRandomPart = "XXXXXX";
constexpr int kMostNames = 4096;  // looked at in one sweep
constexpr int kMostRemoved = 16;
constexpr std::time_t kYoungSeconds = 60;

fs::path temporary_base() {
    std::error_code error;
    fs::path base = fs::temp_directory_path(error);
    return error ? fs::path("/tmp") : base;
}

/// Whether this is a directory of the caller's, old enough, and its owner has ended. It stays locked by `lock`.
bool is_left_behind(int base, const char* name, FileDescriptor& lock) {
    lock = FileDescriptor(::openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    return lock && ::fstat(lock.value(), &status) == 0 && status.st_uid == ::geteuid() &&
           status.st_mtime <= std::time(nullptr) - kYoungSeconds &&
           ::flock(lock.value(), LOCK_EX | LOCK_NB) == 0;
}

void sweep(const fs::path& base) {
    const std::unique_ptr<DIR, int (*)(DIR*)> names(::opendir(base.c_str()), ::closedir);
    if (!names) return;
    int removed = 0;
    for (int i = 0; i < kMostNames && removed < kMostRemoved; ++i) {
        const dirent* const entry = ::readdir(names.get());
        if (entry == nullptr) return;
        const std::string_view name = entry->d_name;
        if (!name.starts_with(kTemporaryPrefix) ||
            name.size() != kTemporaryPrefix.size() + kRandomPart.size())
            continue;
        FileDescriptor lock;
        if (!is_left_behind(::dirfd(names.get()), entry->d_name, lock)) continue;
        std::error_code ignored;
        fs::remove_all(base / entry->d_name, ignored);
        ++removed;
    }
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
    const fs::path base = temporary_base();
    sweep(base);
    std::string name = (base / kTemporaryPrefix).string().append(kRandomPart);
    if (::mkdtemp(name.data()) == nullptr)
        throw std::system_error(errno, std::generic_category(),
                                "can't create a directory in " + base.string());
    path_ = name;
    // Where the file system has no locks, sweeps can't lock it either, and leave it.
    lock_ = FileDescriptor(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock_) static_cast<void>(::flock(lock_.value(), LOCK_EX | LOCK_NB));
}

TemporaryDirectory::TemporaryDirectory(TemporaryDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

TemporaryDirectory::~TemporaryDirectory() {
    if (path_.empty()) return;
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

}  // namespace kiln
