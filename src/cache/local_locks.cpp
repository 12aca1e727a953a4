// SPDX-License-Identifier: Apache-2.0
//
// The directory of the locks is found or created, and its owner and mode are checked. It can't be replaced by
// another user, since its parent directories are sticky.
#include "cache/local_locks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>

#include "base/digest.h"
#include "format/format.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::string error_text(const fs::path& path) { return path.string() + ": " + std::strerror(errno); }

/// A canonical spelling; the directory need not exist.
fs::path resolved(const fs::path& directory) {
    std::error_code error;
    fs::path path = fs::absolute(directory, error);
    if (error) path = directory;
    if (fs::path real = fs::weakly_canonical(path, error); !error) path = std::move(real);
    return path.has_filename() ? path : path.parent_path();
}

/// Others may create files there, but not rename or remove ours.
bool is_safe_place(const fs::path& place) {
    struct stat status;
    return ::stat(place.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
           ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (status.st_mode & S_ISVTX) != 0);
}

bool make_private_directory(const fs::path& directory) {
    if (::mkdir(directory.c_str(), 0700) != 0) return errno == EEXIST;
    return ::chmod(directory.c_str(), 0700) == 0;  // the umask may have taken bits away
}

/// Under another name first, so that no member of the group ever sees it without its group and mode.
bool make_group_directory(const fs::path& directory, gid_t group) {
    std::string temporary = directory.string() + "-XXXXXX";
    if (::mkdtemp(temporary.data()) == nullptr) return false;
    if (::chown(temporary.c_str(), static_cast<uid_t>(-1), group) == 0 &&
        ::chmod(temporary.c_str(), 02770) == 0 &&
        ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, directory.c_str(), RENAME_NOREPLACE) == 0)
        return true;
    const int error = errno;
    ::rmdir(temporary.c_str());
    errno = error;
    return error == EEXIST;
}

}  // namespace

LocalLocks::LocalLocks(const fs::path& cache, Trust trust, const std::vector<fs::path>& places)
    : trust_(trust), group_(::getegid()) {
    struct stat status;
    if (::stat(cache.c_str(), &status) == 0) group_ = status.st_gid;
    prefix_ = digest_hex(resolved(cache).string()).substr(0, 16) + "-";
    const std::string folder =
        trust_.group ? formatted("kiln-g{}", group_) : formatted("kiln-{}", ::geteuid());
    std::string reasons;
    for (const fs::path& place : places) {
        directory_ = place / folder;
        const std::string reason =
            is_safe_place(place) ? make_directory() : place.string() + " is no directory for temporary files";
        if (reason.empty()) return;
        reasons += (reasons.empty() ? "" : "; ") + reason;
    }
    note_problem(std::move(reasons));
}

/// Makes it where it is missing. Returns why it can't be used; empty when it can.
std::string LocalLocks::make_directory() const {
    struct stat status;
    if (::lstat(directory_.c_str(), &status) != 0) {
        if (errno != ENOENT) return error_text(directory_);
        const bool made =
            trust_.group ? make_group_directory(directory_, group_) : make_private_directory(directory_);
        if (!made || ::lstat(directory_.c_str(), &status) != 0) return error_text(directory_);
    }
    const std::string name = directory_.string();
    if (S_ISLNK(status.st_mode)) return name + " is a symbolic link, not a directory";
    if (!S_ISDIR(status.st_mode)) return name + " is not a directory";
    // Only members of a group (and root) can give a directory to it.
    if (trust_.group && status.st_gid != group_)
        return formatted("{} belongs to group {}, not to {}, the group of the cache directory", name,
                         status.st_gid, group_);
    if (!trust_.group && status.st_uid != ::geteuid())
        return formatted("{} belongs to user {}, not to this one", name, status.st_uid);
    if ((status.st_mode & (trust_.group ? S_IWOTH : S_IWGRP | S_IWOTH)) != 0)
        return formatted("others may write to {} (mode {:04o})", name, status.st_mode & 07777);
    if (::access(directory_.c_str(), W_OK | X_OK) != 0) return error_text(directory_);
    return {};
}

/// Removes files of killed holders that were not used since.
void LocalLocks::sweep() const {
    constexpr std::int64_t kDay_s = 24 * 60 * 60;
    std::error_code error;
    for (fs::directory_iterator item(directory_, error), end; !error && item != end; item.increment(error)) {
        struct stat status;
        if (::lstat(item->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode) ||
            std::abs(std::int64_t{::time(nullptr)} - std::int64_t{status.st_mtim.tv_sec}) < kDay_s)
            continue;
        try {
            (void)FileLock::try_acquire(item->path(), trust_.group);  // which unlinks it when it is free
        } catch (const std::system_error&) {
        }
    }
}

std::string LocalLocks::problem() const {
    const std::lock_guard lock(mutex_);
    return problem_;
}

void LocalLocks::note_problem(std::string text) {
    if (!text.empty()) text = "there are no locks between processes: " + text;
    const std::lock_guard lock(mutex_);
    problem_ = std::move(text);
}

fs::path LocalLocks::file(const std::string& name) const { return directory_ / (prefix_ + name); }

std::optional<FileLock> LocalLocks::try_acquire(const std::string& name) {
    try {
        // Checked each time, since a cleaner of temporary files may remove it at any moment.
        for (int round = 0;; ++round) {
            if (std::string reason = make_directory(); !reason.empty()) {
                note_problem(std::move(reason));
                return std::nullopt;
            }
            // Not earlier: a process that finds everything in the cache needs no lock, and should start fast.
            if (!swept_.exchange(true)) sweep();
            try {
                auto lock = FileLock::try_acquire(file(name), trust_.group);
                note_problem({});
                return lock;
            } catch (const std::system_error& error) {
                if (error.code() != std::errc::no_such_file_or_directory || round == 3) throw;
            }
        }
    } catch (const std::exception& exception) {
        note_problem(exception.what());
        return std::nullopt;
    }
}

}  // namespace kiln
