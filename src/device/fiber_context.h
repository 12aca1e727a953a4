// SPDX-License-Identifier: Apache-2.0
//
// One flow of control that can be left and continued. On x86-64 the switch is our own, since switches are a large
// part of what a block with barriers costs; elsewhere, and under the address and thread sanitizers, which are
// notified of each switch, it is boost::context::fiber's.
#pragma once

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KILN_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define KILN_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define KILN_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define KILN_TSAN 1
#endif
#if defined(__x86_64__) && !defined(KILN_ASAN) && !defined(KILN_TSAN)
#define KILN_OWN_SWITCH 1
#else
#include <boost/context/fiber.hpp>
#endif

#include "device/fiber_stack.h"

namespace kiln {

/// Either an OS thread's own flow (never started) or a fiber (started). Neither copied nor moved.
/// What a fiber holds when it is destroyed or started again is forgotten, not unwound: kernels own
/// nothing, and foreign frames need not be unwindable.
class FiberContext {
  public:
    FiberContext() = default;
    FiberContext(const FiberContext&) = delete;
    FiberContext& operator=(const FiberContext&) = delete;
    ~FiberContext();

    /// Makes this a fiber that will call entry(argument), which must never return.
    void start(const FiberStack& stack, void (*entry)(void*), void* argument);

    /// Leaves `from`, which must be the running one, and continues `to`. Returns when someone
    /// switches back to `from`.
    static void switch_to(FiberContext& from, FiberContext& to);

    /// Of a fiber that was started.
    const FiberStack& stack() const { return stack_; }

  private:
    [[noreturn]] static void begin(FiberContext* self);
    void arrived();

#ifdef KILN_OWN_SWITCH
    void* stack_pointer_ = nullptr;  // while it is left
#else
    // In a union, so that its destructor, which would unwind the fiber, never runs.
    union Handle {
        Handle() : fiber() {}
        ~Handle() {}
        boost::context::fiber fiber;
    };

    Handle handle_;
#endif
    FiberContext* left_ = nullptr;  // who switched to this one
    FiberStack stack_;
    void (*entry_)(void*) = nullptr;
    void* argument_ = nullptr;
    [[maybe_unused]] void* fake_stack_ = nullptr;  // of the address sanitizer
    [[maybe_unused]] void* tsan_fiber_ = nullptr;
    [[maybe_unused]] bool owns_tsan_fiber_ = false;
};

}  // namespace kiln
