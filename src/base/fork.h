// SPDX-License-Identifier: Apache-2.0
//
// Noticing fork(): a child has none of its parent's threads, and a lock that one of them held stays held. So
// what belongs to the parent is not repaired in the child but replaced.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>

namespace kiln {

/// How many forks lie between the first process that asked and this one: a number that is another in a child
/// than in its parent. As cheap as reading a variable.
unsigned fork_generation();

/// The state of an object that starts over in a child of fork(): there it is what `make` returns, a unique_ptr, for the
/// parent's state. That one is left alone, and of it `make` may only read what never changes.
/// State::is_of_this_process(): it was made in this process, which most know by fork_generation().
template <class State, class Make>
State& state_of_this_process(std::atomic<State*>& state, const Make& make) {
    State* current = state.load(std::memory_order_acquire);
    while (!current->is_of_this_process()) {
        std::unique_ptr<State> fresh = make(static_cast<const State&>(*current));
        if (state.compare_exchange_strong(current, fresh.get())) return *fresh.release();
    }
    return *current;
}

/// For the destructor of such an object: a child leaves its parent's state alone, whose threads are not there and whose
/// locks may be held.
template <class State>
void end_state_of_this_process(const std::atomic<State*>& state) {
    const State* const current = state.load();  // which stays there: what it waits for may use it
    if (current != nullptr && current->is_of_this_process()) delete current;
}

/// What is made at the first call and then the same for the rest of the process, as a local static object is, but without
/// that one's lock, which a child of fork() may find held for ever: several threads may make one, and one is kept.
/// `make` returns a unique_ptr.
template <class T, class Make>
const T& made_once(std::atomic<const T*>& known, const Make& make) {
    const T* current = known.load(std::memory_order_acquire);
    if (current == nullptr) {
        std::unique_ptr<const T> made = make();
        if (known.compare_exchange_strong(current, made.get())) current = made.release();
    }
    return *current;
}

/// fork() for a child that only launches what its parent has built, and ends by _exit(): it counts as the same
/// process, so that it goes on with the parent's services and kernels. It may not build anything. Waits for every
/// ForkDelay.
pid_t fork_to_launch();
/// Whether this process is such a child.
bool is_launch_child();

/// While one lives, fork_to_launch() waits, and fork() by another thread does for 2 s at most. For code of others that may
/// hold a lock of the C library which the child needs and fork() leaves as it is: if another thread holds it at the fork,
/// the child waits for it for ever. Such is the lock of atexit(): the constructors of a library take it, those of NVRTC
/// thousands of times. And of a library that is being opened at the fork the child has a half, which it takes for the
/// whole. A thread that has one may call fork(), but not fork_to_launch().
class ForkDelay {
  public:
    ForkDelay();
    ~ForkDelay();
    ForkDelay(const ForkDelay&) = delete;
    ForkDelay& operator=(const ForkDelay&) = delete;
};

/// While one lives, every fork() waits, for 0.4 s at most, and other threads wait for theirs. For short calls of libraries
/// whose locks know nothing of fork(), so that one that another thread holds would be held for ever in the child. Nothing
/// that may wait for a ForkDelay is done meanwhile, such as opening a library. A thread may have several.
class ForkExclusion {
  public:
    ForkExclusion();
    ~ForkExclusion();
    ForkExclusion(const ForkExclusion&) = delete;
    ForkExclusion& operator=(const ForkExclusion&) = delete;
};

}  // namespace kiln
