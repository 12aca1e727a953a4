// SPDX-License-Identifier: Apache-2.0
//
// A counter that fork() increments in the child, and the lock between forks and delays of them.
#include "base/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <shared_mutex>

namespace kiln {
namespace {

std::atomic<unsigned> generation{0};    // of the process, as its identity is
std::atomic<bool> launch_child{false};  // likewise

thread_local bool launches_only = false;  // of the fork() that this thread is about to make

std::shared_mutex forking;  // shared by the delays, so that they never wait for each other

[[maybe_unused]] const int registered = ::pthread_atfork(nullptr, nullptr, [] {
    if (!launches_only) generation.fetch_add(1, std::memory_order_relaxed);
    new (&forking) std::shared_mutex;  // the threads that held it are the parent's
});

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

ForkDelay::ForkDelay() : generation_(fork_generation()) { forking.lock_shared(); }

// Not in a child of a plain fork() by this thread: the lock is a new one there, which nobody holds. A child that only
// launches has no delay of its parent's, for fork_to_launch() waits for all of them.
ForkDelay::~ForkDelay() {
    if (generation_ == fork_generation()) forking.unlock_shared();
}

}  // namespace kiln
