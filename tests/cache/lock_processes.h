// SPDX-License-Identifier: Apache-2.0
//
// Processes for tests of what processes do to each other: forked children, and memory that they share. A test
// forks before it has threads.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <thread>
#include <vector>

namespace kiln::test {

/// True as soon as the condition is; false after half a minute without.
inline bool eventually(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

/// A T in memory that forked children share.
template <class T>
class Shared {
  public:
    Shared() {
        void* memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) std::abort();
        value_ = new (memory) T;
    }
    ~Shared() { ::munmap(value_, sizeof(T)); }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    T* operator->() const { return value_; }
    T& operator*() const { return *value_; }

  private:
    T* value_;
};

/// Children, ended by the destructor.
class Processes {
  public:
    Processes() = default;
    Processes(const Processes&) = delete;
    Processes& operator=(const Processes&) = delete;
    ~Processes() {
        for (const pid_t child : children_) {
            ::kill(child, SIGKILL);
            ::waitpid(child, nullptr, 0);
        }
    }

    /// Runs `work` in a child, which ends well unless an expectation failed there.
    template <class Work>
    pid_t start(Work work) {
        const pid_t child = ::fork();
        if (child == 0) {
            work();
            ::_exit(testing::Test::HasFailure() ? 1 : 0);
        }
        children_.push_back(child);
        return child;
    }

    /// Waits until all have ended. Returns how many did so by themselves and well.
    int join() {
        int well = 0;
        for (const pid_t child : children_) {
            int status = 0;
            ::waitpid(child, &status, 0);
            well += WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
        children_.clear();
        return well;
    }

  private:
    std::vector<pid_t> children_;
};

/// Until the child stands still.
inline bool wait_until_stopped(pid_t child) {
    int status = 0;
    return ::waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status);
}

}  // namespace kiln::test
