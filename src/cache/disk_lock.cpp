// SPDX-License-Identifier: Apache-2.0
//
// flock(2) on a directory: it needs no file, and with NFS it is local to this machine, so no lock server can
// hang. Other machines are not excluded, which is why the state is counted again from time to time
// (cache/README.md).
#include "cache/disk_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

namespace kiln {

DiskLock::DiskLock(FileDescriptor directory) : directory_(std::move(directory)), process_(::getpid()) {}

std::optional<DiskLock> DiskLock::acquire(int version, std::chrono::milliseconds limit) {
    FileDescriptor directory(::openat(version, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return std::nullopt;
    const auto end = std::chrono::steady_clock::now() + limit;
    for (auto pause = std::chrono::milliseconds(1);; pause = std::min(pause * 2, decltype(pause)(20))) {
        if (::flock(directory.value(), LOCK_EX | LOCK_NB) == 0) return DiskLock(std::move(directory));
        if ((errno != EWOULDBLOCK && errno != EINTR) || std::chrono::steady_clock::now() >= end)
            return std::nullopt;
        std::this_thread::sleep_for(pause);
    }
}

DiskLock::~DiskLock() {
    // Without LOCK_UN, copies of the descriptor in forked children would keep the lock.
    if (directory_ && ::getpid() == process_) (void)::flock(directory_.value(), LOCK_UN);
}

}  // namespace kiln
