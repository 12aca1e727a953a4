// SPDX-License-Identifier: Apache-2.0
//
// A counter that fork() increments in the child, and the locks between forks and what delays or excludes them.
#include "base/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

namespace kiln {
namespace {

std::atomic<unsigned> generation{0};    // of the process, as its identity is
std::atomic<bool> launch_child{false};  // likewise

thread_local bool launches_only = false;  // of the fork() that this thread is about to make

std::mutex gate;                 // held by fork(), so that no more delays begin
std::atomic<int> all_delays{0};  // of all threads; grows only under the gate

std::mutex entrance;  // held by fork(), so that no more exclusions begin
std::mutex inside;    // held by the thread that has exclusions

// Of this thread.
thread_local int exclusions = 0;
thread_local int delays = 0;

// What the fork() that this thread is about to make holds.
thread_local bool fork_has_gate = false;
thread_local bool fork_has_both = false;

/// Waits between two looks: longer and longer, since what is waited for may last.
class Poll {
  public:
    void wait() {
        std::this_thread::sleep_for(nap_);
        nap_ = std::min(2 * nap_, kLongest);
    }

  private:
    static constexpr std::chrono::microseconds kLongest{5000};
    std::chrono::microseconds nap_{100};
};

/// With a limit: another thread may stay inside.
bool lock_soon(std::mutex& mutex, std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    for (Poll poll; !mutex.try_lock(); poll.wait())
        if (std::chrono::steady_clock::now() >= end) return false;
    return true;
}

/// Holds the gate when nobody has a delay. While a thread has one, others may begin: they may be what that one waits for.
bool lock_gate(std::optional<std::chrono::milliseconds> limit) {
    const auto begin = std::chrono::steady_clock::now();
    for (Poll poll;; poll.wait()) {
        gate.lock();
        if (all_delays == 0) return true;
        gate.unlock();
        if (limit && std::chrono::steady_clock::now() - begin >= *limit) return false;
    }
}

void before_fork() {
    using std::chrono::milliseconds;
    // With a limit, since a library that is being opened may wait for what fork() and other handlers hold.
    if (!launches_only) fork_has_gate = delays == 0 && lock_gate(milliseconds(2000));
    fork_has_both = false;
    if (exclusions > 0 || !lock_soon(entrance, milliseconds(200))) return;
    fork_has_both = lock_soon(inside, milliseconds(200));
    if (!fork_has_both) entrance.unlock();
}

void after_fork() {
    if (fork_has_both) {
        inside.unlock();
        entrance.unlock();
    }
    if (fork_has_gate) gate.unlock();
}

void after_fork_in_child() {
    if (!launches_only) generation.fetch_add(1, std::memory_order_relaxed);
    after_fork();
    // What this thread does not hold, one of the parent's may, which is not here.
    if (!fork_has_gate) new (&gate) std::mutex;
    if (!fork_has_both) new (&entrance) std::mutex;
    if (!fork_has_both && exclusions == 0) new (&inside) std::mutex;
    all_delays = delays;
}

[[maybe_unused]] const int registered = ::pthread_atfork(before_fork, after_fork, after_fork_in_child);

}  // namespace

unsigned fork_generation() { return generation.load(std::memory_order_relaxed); }

pid_t fork_to_launch() {
    fork_has_gate = delays == 0 && lock_gate(std::nullopt);
    launches_only = true;
    const pid_t child = ::fork();
    launches_only = false;
    if (child == 0) launch_child = true;
    return child;
}

bool is_launch_child() { return launch_child; }

ForkDelay::ForkDelay() {
    const std::lock_guard lock(gate);
    ++all_delays;
    ++delays;
}

ForkDelay::~ForkDelay() {
    --delays;
    --all_delays;
}

ForkExclusion::ForkExclusion() {
    if (exclusions == 0) {
        entrance.lock();
        entrance.unlock();
        inside.lock();
    }
    ++exclusions;
}

ForkExclusion::~ForkExclusion() {
    if (--exclusions == 0) inside.unlock();
}

}  // namespace kiln
