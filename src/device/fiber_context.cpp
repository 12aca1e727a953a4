// SPDX-License-Identifier: Apache-2.0
//
// With Boost switches are symmetric: the resumed context stores the handle of the previous one.
#include "device/fiber_context.h"

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#ifdef KILN_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef KILN_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#ifdef KILN_OWN_SWITCH
// kiln_switch_stack(save, next, argument): leaves the running flow, whose stack pointer goes to *save, for the one
// whose stack pointer is `next`, which finds `argument` if it begins. What the System V ABI lets a callee spoil is
// the caller's to save; the control words of the x87 and of SSE, which no kernel changes, stay as they are: to load
// them would cost more than all the rest. It jumps where a return would be predicted to go back into the flow that
// was left.
asm(R"(
    .pushsection .text
    .p2align 4
    .type kiln_switch_stack, @function
kiln_switch_stack:
    .cfi_startproc
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    movq %rdx, %rdi
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmpq *%rcx
    .cfi_endproc
    .size kiln_switch_stack, . - kiln_switch_stack
    .popsection
)");
extern "C" void kiln_switch_stack(void** save, void* next, void* argument) asm("kiln_switch_stack");
#endif

namespace kiln {
namespace {

#ifdef KILN_OWN_SWITCH
// What kiln_switch_stack takes from a stack: the registers in the order of its pops, where it jumps to, and what
// that finds where a function expects the address to return to.
struct FirstFrame {
    std::array<std::uint64_t, 6> registers{};
    void (*entry)(FiberContext*) = nullptr;
    void* caller = nullptr;  // none: a list of frames ends here
};
static_assert(sizeof(FirstFrame) % 16 == 0, "a stack pointer is a multiple of 16 before a call");
#else
// The stacks belong to FiberStacks.
struct NoAllocator {
    boost::context::stack_context allocate() { return {}; }
    void deallocate(boost::context::stack_context&) {}
};
#endif

}  // namespace

// NOLINTNEXTLINE(modernize-use-equals-default): not under ThreadSanitizer
FiberContext::~FiberContext() {
#ifdef KILN_TSAN
    if (owns_tsan_fiber_) __tsan_destroy_fiber(tsan_fiber_);
#endif
}

void FiberContext::start(const FiberStack& stack, void (*entry)(void*), void* argument) {
    stack_ = stack;
    entry_ = entry;
    argument_ = argument;
    fake_stack_ = nullptr;
#ifdef KILN_ASAN
    __asan_unpoison_memory_region(stack.bottom, stack.bytes);
#endif
#ifdef KILN_TSAN
    if (owns_tsan_fiber_) __tsan_destroy_fiber(tsan_fiber_);
    tsan_fiber_ = __tsan_create_fiber(0);
    owns_tsan_fiber_ = true;
#endif
#ifdef KILN_OWN_SWITCH
    auto* const frame = new (stack.top() - sizeof(FirstFrame)) FirstFrame;
    frame->entry = &FiberContext::begin;
    stack_pointer_ = frame;
#else
#ifdef KILN_TSAN
    // Boost enters the fiber once to place its record on the stack.
    void* const creator = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(tsan_fiber_, 0);
#endif
    boost::context::stack_context memory;
    memory.size = stack.bytes;
    memory.sp = stack.top();
    std::construct_at(&handle_.fiber, std::allocator_arg,
                      boost::context::preallocated(memory.sp, memory.size, memory), NoAllocator{},
                      [this](boost::context::fiber&& left) -> boost::context::fiber {
                          left_->handle_.fiber = std::move(left);
                          begin(this);
                      });
#ifdef KILN_TSAN
    __tsan_switch_to_fiber(creator, 0);
#endif
#endif
}

void FiberContext::begin(FiberContext* self) {
    self->arrived();
    self->entry_(self->argument_);
    std::terminate();
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
#ifdef KILN_OWN_SWITCH
    kiln_switch_stack(&from.stack_pointer_, to.stack_pointer_, &to);
#else
    boost::context::fiber left = std::move(to.handle_.fiber).resume();
    from.left_->handle_.fiber = std::move(left);
#endif
    from.arrived();
}

// On the stack of the flow that continues.
void FiberContext::arrived() {
#ifdef KILN_ASAN
    const void* bottom = nullptr;
    std::size_t bytes = 0;
    __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &bytes);
    // The only way to learn where an OS thread's own stack lies.
    left_->stack_ = {static_cast<std::byte*>(const_cast<void*>(bottom)), bytes};
#endif
}

}  // namespace kiln
