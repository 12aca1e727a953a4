// SPDX-License-Identifier: Apache-2.0
//
// A counter that fork() increments in the child.
#include "base/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace kiln {
namespace {

std::atomic<unsigned> generation{0};    // of the process, as its identity is
std::atomic<bool> launch_child{false};  // likewise

thread_local bool launches_only = false;  // of the fork() that this thread is about to make

[[maybe_unused]] const int registered = ::pthread_atfork(nullptr, nullptr, [] {
    if (!launches_only) generation.fetch_add(1, std::memory_order_relaxed);
});

}  // namespace

unsigned fork_generation() { return generation.load(std::memory_order_relaxed); }

pid_t fork_to_launch() {
    launches_only = true;
    const pid_t child = ::fork();
    launches_only = false;
    if (child == 0) launch_child = true;
    return child;
}

bool is_launch_child() { return launch_child; }

}  // namespace kiln
