// SPDX-License-Identifier: Apache-2.0
//
// The scheduler of a block's threads, and what it does when none of them can go on.
#include "device/fiber_block.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <random>
#include <utility>

#include "format/format.h"

namespace kiln {
namespace {

// Around what is observed, so that an overrun meets nothing else.
constexpr std::size_t kSharedMargin = 16 * 1024;

}  // namespace

void FiberBlock::Positions::fill(unsigned count) {
    for (unsigned i = 0; i < words_.size(); ++i) {
        const unsigned before = i * 64;
        words_[i] = count >= before + 64 ? ~std::uint64_t{0}
                    : count > before     ? (std::uint64_t{1} << (count - before)) - 1
                                         : 0;
    }
    first_ = 0;
}

int FiberBlock::Positions::take_first() {
    for (; first_ < words_.size(); ++first_) {
        std::uint64_t& word = words_[first_];
        if (word == 0) continue;
        const int bit = __builtin_ctzll(word);
        word &= word - 1;
        return static_cast<int>(first_ * 64) + bit;
    }
    return -1;
}

void FiberBlock::Positions::take_all(Positions& other) {
    for (unsigned i = 0; i < words_.size(); ++i) words_[i] |= std::exchange(other.words_[i], 0);
    first_ = 0;
}

FiberBlock::FiberBlock() { runtime = &kRuntime; }

FiberBlock::~FiberBlock() = default;

void FiberBlock::prepare(const BlockPlan& plan) {
    const bool same_block = plan.block == plan_.block && !plan_.seed && !plan.seed;
    plan_ = plan;
    block_dim = {plan.block.x, plan.block.y, plan.block.z};
    grid_dim = {plan.grid.x, plan.grid.y, plan.grid.z};
    shared_.resize(plan.dynamic_shared_bytes, plan.observer != nullptr ? kSharedMargin : 0);
    dynamic_shared = shared_.data();
    dynamic_shared_bytes = static_cast<unsigned>(plan.dynamic_shared_bytes);
    start_log();
    if (thread_count_ != 0 && same_block) return;
    thread_count_ = static_cast<unsigned>(plan.block.count());
    threads_ = std::vector<Thread>(thread_count_);
    warps_ = std::vector<Warp>((thread_count_ + kiln_host::kWarpSize - 1) / kiln_host::kWarpSize);
    arrange(0);
}

// Gives each position of the order its thread.
void FiberBlock::arrange(std::uint64_t block_number) {
    std::array<std::uint16_t, kMaxBlockThreads> order;
    std::iota(order.begin(), order.begin() + thread_count_, std::uint16_t{0});
    if (plan_.seed) {
        std::mt19937_64 random(*plan_.seed * 0x9e3779b97f4a7c15u + block_number);
        for (unsigned i = thread_count_; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    }
    for (unsigned position = 0; position < thread_count_; ++position) {
        const unsigned number = order[position];
        Thread& thread = threads_[position];
        thread.block = this;
        thread.position = position;
        thread.silent = false;
        thread.thread_idx = {number % block_dim.x, number / block_dim.x % block_dim.y,
                             number / block_dim.x / block_dim.y};
        thread.warp = number / kiln_host::kWarpSize;
        thread.lane = number % kiln_host::kWarpSize;
        warps_[thread.warp].lanes[thread.lane] = &thread;
    }
}

std::string FiberBlock::run(Dim3 index) {
    block_idx = {index.x, index.y, index.z};
    was_ended_ = has_spun_ = false;
    spin_.reset();
    if (plan_.seed) {
        const std::uint64_t number = (std::uint64_t{index.z} * grid_dim.y + index.y) * grid_dim.x + index.x;
        arrange(number);
        poison_shared(dynamic_shared, plan_.dynamic_shared_bytes, plan_.poison + number);
        if (plan_.static_shared != nullptr) plan_.static_shared->poison(plan_.poison + number);
    }
    for (unsigned i = 0; i < warps_.size(); ++i) {
        const unsigned lanes = std::min(thread_count_ - i * kiln_host::kWarpSize, kiln_host::kWarpSize);
        warps_[i].live = 0xffffffffu >> (kiln_host::kWarpSize - lanes);
    }
    live_ = thread_count_;
    arrived_ = yes_ = 0;
    if (named_used_) forget_waits();
    runnable_.fill(thread_count_);
    next_ = &threads_[static_cast<unsigned>(runnable_.take_first())];

    active_ = &main_;
    continue_with(idle_fiber());
    while (errand_.run != nullptr) {
        const Errand errand = std::exchange(errand_, {});
        errand.run(errand.what);
        continue_with(errand.from);
    }
    running_ = nullptr;

    if (failure_.empty() && live_ == 0) {
        if (shared_.is_whole()) [[likely]]
            return {};
        failure_ = overrun();
    }
    std::string problem = failure_.empty() ? deadlock() : std::exchange(failure_, {});
    reset_after_failure();
    return problem;
}

std::string FiberBlock::overrun() {
    shared_.repair();
    return formatted(
        "it wrote outside its dynamic shared memory, which has the {} bytes that the template's '//@ shared' "
        "line asks for",
        dynamic_shared_bytes);
}

// The stacks of threads that never ended are started afresh.
void FiberBlock::reset_after_failure() {
    failure_.clear();
    at_barrier_.clear();
    forget_waits();
    idle_.clear();
    free_meetings_.clear();
    meetings_.clear();
    for (Warp& warp : warps_) warp.open.clear();
    open_places_ = 0;
    for (Thread& thread : threads_) {
        thread.fiber = nullptr;
        thread.meeting = nullptr;
        thread.in_warp_wait = false;
        thread.barrier = 0;
        thread.ready = nullptr;
    }
    for (std::size_t i = 0; i < fibers_.size(); ++i) {
        fibers_[i].start(fiber_stacks_[i], &fiber_main, this);
        idle_.push_back(&fibers_[i]);
    }
}

FiberContext* FiberBlock::idle_fiber() {
    if (idle_.empty()) {
        fiber_stacks_.push_back(stacks_.take());
        fibers_.emplace_back().start(fiber_stacks_.back(), &fiber_main, this);
        return &fibers_.back();
    }
    FiberContext* const fiber = idle_.back();
    idle_.pop_back();
    return fiber;
}

void FiberBlock::continue_with(FiberContext* next) {
    FiberContext& from = *std::exchange(active_, next);
    if (log_ != nullptr) {
        log_->stack = reinterpret_cast<std::uint64_t>(next->stack().bottom);
        log_->stack_bytes = next->stack().bytes;
    }
    FiberContext::switch_to(from, *next);
}

// Where the first runnable thread waits; null: it has yet to begin and is in next_. The main flow when
// there is none: the block has ended, or nobody can go on.
FiberContext* FiberBlock::next_flow() {
    int position = runnable_.take_first();
    if (position < 0) {
        if (!poll() && !complete_places()) return &main_;
        position = runnable_.take_first();
    }
    Thread& thread = threads_[static_cast<unsigned>(position)];
    if (thread.fiber != nullptr) return std::exchange(thread.fiber, nullptr);
    next_ = &thread;
    return nullptr;
}

void FiberBlock::fiber_main(void* self) {
    FiberBlock& block = *static_cast<FiberBlock*>(self);
    for (;;) {
        block.run_thread(*block.next_);
        FiberContext* const next = block.next_flow();
        if (next == nullptr) continue;
        block.idle_.push_back(block.active_);
        block.continue_with(next);
    }
}

void FiberBlock::run_thread(Thread& thread) {
    running_ = &thread;
    try {
        plan_.kernel->run(&thread, plan_.arguments);
    } catch (const std::exception& exception) {
        failure_ = text_of(thread) + " threw an exception: " + exception.what();
    } catch (...) {
        failure_ = text_of(thread) + " threw an exception";
    }
    tell(thread);
    if (!failure_.empty()) abandon();
    end(thread);
}

// Lets others run until `self` is runnable and first again.
void FiberBlock::wait(Thread& self) {
    self.fiber = active_;
    FiberContext* next = next_flow();
    if (next == nullptr) {
        try {
            next = idle_fiber();
        } catch (const std::exception& exception) {
            failure_ = exception.what();
        }
        if (next == nullptr) abandon();
    }
    if (next != active_) continue_with(next);
    running_ = &self;
}

bool FiberBlock::where(KernelFacts& facts) const noexcept {
    if (running_ == nullptr) return false;
    facts.kernel = plan_.name;
    for (const auto& [from, to] :
         {std::pair(&block_idx, facts.block), {&running_->thread_idx, facts.thread}}) {
        to[0] = from->x;
        to[1] = from->y;
        to[2] = from->z;
    }
    facts.stack = active_->stack().bottom;
    facts.stack_bytes = active_->stack().bytes;
    facts.shared = static_cast<const std::byte*>(dynamic_shared);
    facts.shared_bytes = dynamic_shared_bytes;
    facts.shared_guard = DynamicSharedMemory::kGuardBytes;
    return true;
}

void FiberBlock::end(Thread& thread) {
    Warp& warp = warps_[thread.warp];
    leave_meeting(thread);
    --live_;
    warp.live &= ~(1u << thread.lane);
    if (arrived_ != 0 && arrived_ == live_) release_block();
    for (std::size_t i = warp.open.size(); i-- > 0;) {
        Meeting& meeting = *warp.open[i];
        if ((meeting.mask & warp.live & ~meeting.arrived) == 0) complete(warp, meeting);
    }
}

void FiberBlock::abandon() {
    continue_with(&main_);
    std::terminate();  // never resumed
}

}  // namespace kiln
