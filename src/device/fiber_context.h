// SPDX-License-Identifier: Apache-2.0
//
// One flow of control that can be left and continued: a thin layer over boost::context::fiber that
// tells the address and thread sanitizers of each switch.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>

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
    void arrived(boost::context::fiber&& left);

    // In a union, so that its destructor, which would unwind the fiber, never runs.
    union Handle {
        Handle() : fiber() {}
        ~Handle() {}
        boost::context::fiber fiber;
    };

    Handle handle_;
    FiberContext* left_ = nullptr;  // who switched to this one
    FiberStack stack_;
    [[maybe_unused]] void* fake_stack_ = nullptr;  // of the address sanitizer
    [[maybe_unused]] void* tsan_fiber_ = nullptr;
    [[maybe_unused]] bool owns_tsan_fiber_ = false;
};

}  // namespace kiln
