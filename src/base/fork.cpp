// SPDX-License-Identifier: Apache-2.0
//
// A counter that fork() increments in the child.
#include "base/fork.h"

#include <pthread.h>

#include <atomic>

namespace kiln {
namespace {

std::atomic<unsigned> generation{0};  // of the process, as its identity is

[[maybe_unused]] const int registered =
    ::pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

unsigned fork_generation() { return generation.load(std::memory_order_relaxed); }

}  // namespace kiln
