// SPDX-License-Identifier: Apache-2.0
//
// FileLock over flock(2), which belongs to an open file and not to a process, so that it works between
// threads as well. It is acquired through the file and released by unlinking. That is correct because only a
// holder unlinks, and that a lock whose file was unlinked meanwhile does not count.
#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <thread>

namespace kiln {
namespace {

constexpr std::chrono::milliseconds kNap{20};

[[noreturn]] void fail(int error, const std::filesystem::path& path) {
    throw std::system_error(error, std::generic_category(), "can't lock " + path.string());
}

/// Is it the file of that name?
bool is_named(const FileDescriptor& file, const std::filesystem::path& path) {
    struct stat opened, named;
    return ::fstat(file.value(), &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

FileLock::FileLock(FileDescriptor file, std::filesystem::path path)
    : file_(std::move(file)), path_(std::move(path)), process_(::getpid()) {}

std::optional<FileLock> FileLock::try_acquire(const std::filesystem::path& path, bool shared_with_group) {
    return try_acquire(path, shared_with_group, false);
}

std::optional<FileLock> FileLock::acquire_for(const std::filesystem::path& file,
                                              std::chrono::milliseconds patience) {
    const auto until = std::chrono::steady_clock::now() + patience;
    while (true) {
        auto lock = try_acquire(place_for(file), false, true);
        if (lock || std::chrono::steady_clock::now() >= until) return lock;
        std::this_thread::sleep_for(kNap);
    }
}

std::filesystem::path FileLock::place_for(const std::filesystem::path& file) {
    return file.string() + ".lock";
}

std::optional<FileLock> FileLock::try_acquire(const std::filesystem::path& path, bool shared_with_group,
                                              bool must_be_empty) {
    const mode_t mode = shared_with_group ? 0660 : 0600;
    // Another round is needed if a holder released during this one.
    for (int round = 0; round < 100; ++round) {
        // O_NONBLOCK: so that it does not hang if the name is a FIFO.
        FileDescriptor file(
            ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode));
        if (!file) {
            // A member of the group has just created the file, and not set its mode yet.
            if (errno == EACCES && shared_with_group) return std::nullopt;
            fail(errno, path);
        }
        struct stat status;
        if (::fstat(file.value(), &status) != 0) fail(errno, path);
        if (!S_ISREG(status.st_mode)) fail(EINVAL, path);
        if (must_be_empty && status.st_size > 0)
            throw std::system_error(EEXIST, std::generic_category(),
                                    path.string() +
                                        " is not empty, so that it is no lock; move it away, or "
                                        "write to another file");
        if (!shared_with_group && status.st_uid != ::geteuid() && status.st_uid != 0) fail(EPERM, path);
        if (status.st_uid == ::geteuid() && (status.st_mode & 0777) != mode)
            (void)::fchmod(file.value(), mode);  // the umask took bits away

        int result = 0;
        do result = ::flock(file.value(), LOCK_EX | LOCK_NB);
        while (result != 0 && errno == EINTR);
        if (result != 0 && errno == EWOULDBLOCK) return std::nullopt;
        if (result != 0) fail(errno, path);
        if (is_named(file, path)) return FileLock(std::move(file), path);
    }
    return std::nullopt;
}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
    if (this != &other) {
        release();
        file_ = std::move(other.file_);
        path_ = std::move(other.path_);
        process_ = other.process_;
    }
    return *this;
}

FileLock::~FileLock() { release(); }

void FileLock::release() {
    if (!file_) return;
    if (::getpid() == process_) {
        // If the directory was removed and created again, the name may belong to another holder.
        if (is_named(file_, path_)) (void)::unlink(path_.c_str());
        // Should the file have stayed, closing alone would leave the lock with the copies of forked children.
        (void)::flock(file_.value(), LOCK_UN);
    }
    file_.reset();
}

}  // namespace kiln
