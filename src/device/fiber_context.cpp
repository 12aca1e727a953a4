// SPDX-License-Identifier: Apache-2.0
//
// Symmetric switches: whoever arrives stores the handle of the one that was left.
#include "device/fiber_context.h"

#include <memory>
#include <new>
#include <utility>

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

#ifdef KILN_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef KILN_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace kiln {
namespace {

// The stacks belong to FiberStacks.
struct NoAllocator {
    boost::context::stack_context allocate() { return {}; }
    void deallocate(boost::context::stack_context&) {}
};

}  // namespace

FiberContext::~FiberContext() {
#ifdef KILN_TSAN
    if (owns_tsan_fiber_) __tsan_destroy_fiber(tsan_fiber_);
#endif
}

void FiberContext::start(const FiberStack& stack, void (*entry)(void*), void* argument) {
    stack_ = stack;
    fake_stack_ = nullptr;
#ifdef KILN_ASAN
    __asan_unpoison_memory_region(stack.bottom, stack.bytes);
#endif
#ifdef KILN_TSAN
    if (owns_tsan_fiber_) __tsan_destroy_fiber(tsan_fiber_);
    tsan_fiber_ = __tsan_create_fiber(0);
    owns_tsan_fiber_ = true;
    // Boost enters the fiber once to place its record on the stack.
    void* const creator = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_fiber_, 0);
#endif
    boost::context::stack_context memory;
    memory.size = stack.bytes;
    memory.sp = stack.top();
    std::construct_at(&handle_.fiber, std::allocator_arg,
                      boost::context::preallocated(memory.sp, memory.size, memory), NoAllocator{},
                      [this, entry, argument](boost::context::fiber&& left) -> boost::context::fiber {
                          arrived(std::move(left));
                          entry(argument);
                          std::terminate();
                      });
#ifdef KILN_TSAN
    __tsan_switch_to_fiber(creator, 0);
#endif
}

void FiberContext::switch_to(FiberContext& from, FiberContext& to) {
    to.left_ = &from;
#ifdef KILN_ASAN
    __sanitizer_start_switch_fiber(&from.fake_stack_, to.stack_.bottom, to.stack_.bytes);
#endif
#ifdef KILN_TSAN
    if (!from.owns_tsan_fiber_) from.tsan_fiber_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to.tsan_fiber_, 0);
#endif
    from.arrived(std::move(to.handle_.fiber).resume());
}

void FiberContext::arrived(boost::context::fiber&& left) {
#ifdef KILN_ASAN
    const void* bottom = nullptr;
    std::size_t bytes = 0;
    __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &bytes);
    // The only way to learn where an OS thread's own stack lies.
    left_->stack_ = {static_cast<std::byte*>(const_cast<void*>(bottom)), bytes};
#endif
    left_->handle_.fiber = std::move(left);
}

}  // namespace kiln
