// SPDX-License-Identifier: Apache-2.0
//
// A counter that fork() increments in the child, and the locks between forks and what delays or excludes them.
#include "base/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <thread>

namespace kiln {
namespace {

std::atomic<unsigned> generation{0};    // of the process, as its identity is
std::atomic<bool> launch_child{false};  // likewise

thread_local bool launches_only = false;  // of the fork() that this thread is about to make

std::shared_mutex forking;  // shared by the delays, so that they never wait for each other

std::mutex entrance;  // held by fork(), so that no more exclusions begin
std::mutex inside;    // held by the thread that has exclusions

// Of this thread.
thread_local int exclusions = 0;
thread_local int delays = 0;

// What the fork() that this thread is about to make holds.
thread_local bool fork_has_forking = false;
thread_local bool fork_has_both = false;

/// With a limit: another thread may stay inside, and the constructor of a library may wait for what this thread has.
template <class Mutex>
bool lock_soon(Mutex& mutex, std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!mutex.try_lock()) {
        if (std::chrono::steady_clock::now() >= end) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return true;
}

void before_fork() {
    using std::chrono::milliseconds;
    fork_has_forking = !launches_only && delays == 0 && lock_soon(forking, milliseconds(2000));
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
    if (fork_has_forking) forking.unlock();
}

void after_fork_in_child() {
    if (!launches_only) generation.fetch_add(1, std::memory_order_relaxed);
    // The threads that held them are the parent's, but for this one.
    new (&forking) std::shared_mutex;
    new (&entrance) std::mutex;
    new (&inside) std::mutex;
    for (int i = 0; i < delays; ++i) forking.lock_shared();
    if (exclusions > 0) inside.lock();
}

[[maybe_unused]] const int registered = ::pthread_atfork(before_fork, after_fork, after_fork_in_child);

}  // namespace

unsigned fork_generation() { return generation.load(std::memory_order_relaxed); }

pid_t fork_to_launch() {
    forking.lock();
    launches_only = true;
    const pid_t child = ::fork();
    launches_only = false;
    if (child == 0)
        launch_child = true;
    else
        forking.unlock();
    return child;
}

bool is_launch_child() { return launch_child; }

ForkDelay::ForkDelay() {
    forking.lock_shared();
    ++delays;
}

ForkDelay::~ForkDelay() {
    --delays;
    forking.unlock_shared();
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
