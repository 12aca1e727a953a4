// SPDX-License-Identifier: Apache-2.0
//
// FiberBlock runs the threads of one block on one OS thread. Offered: run(), one block from start to
// end, and the runtime that kernels call (kiln/host_abi.h). Which blocks run where is not decided here.
//
// The runnable thread that comes first in the order always goes next, and runs until it has to wait or
// ends, or until its arrival ends a phase of a barrier that it does not wait at. A fiber runs one thread
// after the other, so a kernel that never waits is a plain loop; only when a thread waits does the next one
// get a fiber of its own. A missing barrier thus shows: threads run as far ahead of each other as the kernel
// lets them. The conditions of wait_until are looked at when no thread can go on otherwise.
#pragma once

#include <kiln/observe.h>
#include <kiln/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/kernel_watch.h"
#include "device/fiber_context.h"
#include "device/fiber_stack.h"
#include "device/grid_barrier.h"
#include "device/shared_memory.h"
#include "device/static_shared.h"
#include "kiln/host_abi.h"

namespace kiln {

/// What all blocks of a launch share.
struct BlockPlan {
    const kiln_host::Kernel* kernel = nullptr;
    const char* name = "";  ///< the kernel's
    void* const* arguments = nullptr;
    Dim3 grid;
    Dim3 block;
    std::size_t dynamic_shared_bytes = 0;
    AccessObserver* observer = nullptr;  ///< of a kernel with a log of accesses
    std::optional<std::uint64_t> seed;   ///< permutes the order of the threads, and has shared memory
                                         ///< poisoned before each block
    std::uint64_t poison = 0;            ///< of the first block, for poison_shared()
    const StaticShared* static_shared = nullptr;  ///< of the kernel's object; null: it is not filled
    bool cooperative = false;                     ///< its blocks run at once, each on an OS thread
    GridBarrier* barrier = nullptr;               ///< of those blocks
    const std::atomic<bool>* has_failed =
        nullptr;  ///< whether a block has, or is left out, so that none may wait for it; null: not known
};

/// The most threads of a block.
constexpr unsigned kMaxBlockThreads = 1024;
/// Barriers of a block, the one of __syncthreads included.
constexpr unsigned kNamedBarriers = 16;

/// Not to be shared by OS threads at a time, but any of them may use it.
class FiberBlock final : private kiln_host::Block, public KernelRunner {
  public:
    FiberBlock();
    FiberBlock(const FiberBlock&) = delete;
    FiberBlock& operator=(const FiberBlock&) = delete;
    ~FiberBlock();

    /// To be called before the first run of a launch. The plan must outlive its last one.
    void prepare(const BlockPlan& plan);
    std::uint64_t dynamic_shared_address() const { return reinterpret_cast<std::uint64_t>(dynamic_shared); }
    /// Runs the block to its end. Returns what went wrong, for the end of a sentence; empty: nothing.
    std::string run(Dim3 index);
    /// Whether the last run only ended because another block had failed or was left out.
    bool was_ended() const { return was_ended_; }
    /// Whether it was ended, while it was observed, since for a second its threads read some places again and again and did
    /// nothing else.
    bool has_spun() const { return has_spun_; }
    bool where(KernelFacts& facts) const noexcept override;

  private:
    struct Warp;

    // Where a thread calls active_lanes: the line, the place, and the addresses to which the calls around it return.
    using Place = std::vector<std::uintptr_t>;  // never empty

    // Lanes that meet in a vote or shuffle. It outlives the meeting until all have read it.
    struct Meeting {
        unsigned mask = 0;
        const Place* place = nullptr;  // of active_lanes; null: it is a vote, shuffle or barrier
        unsigned bytes = 0;            // 0: no deposits
        bool orders_memory = false;
        unsigned arrived = 0;
        unsigned yes = 0;
        int readers = 0;
        std::array<kiln_host::Deposit, kiln_host::kWarpSize> deposits;
    };

    struct Thread : kiln_host::Thread {
        FiberContext* fiber = nullptr;  // where it waits; null: it has not begun, runs or has ended
        Meeting* meeting = nullptr;     // the last one it took part in
        unsigned position = 0;          // in the order
        bool in_warp_wait = false;
        unsigned barrier = 0;  // the named one at which it waits; 0: none
        int (*ready)(const void*) =
            nullptr;  // what it waits for in wait_until; null: nothing, or only for others to go on
        const void* ready_state = nullptr;
        const void* calls = nullptr;  // where it last called what waits; said where nobody can go on
    };

    struct Warp {
        unsigned live = 0;
        std::vector<Meeting*> open;  // not yet complete
        std::array<Thread*, kiln_host::kWarpSize> lanes{};
    };

    // A set of positions in the order.
    class Positions {
      public:
        void fill(unsigned count);
        void insert(unsigned position) {
            words_[position / 64] |= std::uint64_t{1} << position % 64;
            if (position / 64 < first_) first_ = position / 64;
        }
        void erase(unsigned position) { words_[position / 64] &= ~(std::uint64_t{1} << position % 64); }
        /// Takes the smallest out; -1 when empty.
        int take_first();
        void take_all(Positions& other);
        void clear() {
            words_.fill(0);
            first_ = 0;
        }

      private:
        std::array<std::uint64_t, kMaxBlockThreads / 64> words_{};
        unsigned first_ = 0;  // no word before it has a bit
    };

    // At which some threads of the block meet.
    struct NamedBarrier {
        unsigned count = 0;    // how many meet; 0: nobody has come yet
        unsigned arrived = 0;  // of those, in warps of which all lanes have come
        unsigned partial = 0;  // lanes of other warps
        std::array<std::uint16_t, kMaxBlockThreads / kiln_host::kWarpSize> lanes =
            {};  // the same of each warp
        Positions waiting;
    };

    static unsigned sync_block(kiln_host::Thread* self, int predicate);
    static void sync_warp(kiln_host::Thread* self, unsigned mask);
    static unsigned vote(kiln_host::Thread* self, unsigned mask, int predicate, unsigned* arrived);
    static const kiln_host::Deposit* exchange(kiln_host::Thread* self, unsigned mask, const void* value,
                                              unsigned bytes, unsigned* arrived);
    static void sync_named(kiln_host::Thread* self, unsigned id, unsigned count);
    static void arrive_named(kiln_host::Thread* self, unsigned id, unsigned count);
    static void wait_until(kiln_host::Thread* self, int (*ready)(const void*), const void* state);
    static unsigned active_lanes(kiln_host::Thread* self, const void* place, int line);
    static void sync_grid(kiln_host::Thread* self);
    static void end_if_failed(kiln_host::Thread* self);
    static void trap(kiln_host::Thread* self, const char* message);
    static void flush(kiln_host::Thread* self);
    static void release(kiln_host::Thread* self, const void* object);
    static void acquire(kiln_host::Thread* self, const void* object);
    static void bad_index(kiln_host::Thread* self, const kiln_host::BadIndex* what);
    static const kiln_host::Runtime kRuntime;
    static FiberBlock& of(kiln_host::Thread* self) { return *static_cast<FiberBlock*>(self->block); }

    static void fiber_main(void* self);
    FiberContext* idle_fiber();
    FiberContext* next_flow();
    void continue_with(FiberContext* next);
    void wait(Thread& self);
    void run_thread(Thread& thread);
    void end(Thread& thread);
    // Ends the block with failure_. The caller's stack is never unwound: it must own nothing.
    [[noreturn]] void abandon();

    void release_block();
    bool arrive_at(Thread& self, unsigned id, unsigned count, bool waits);
    bool poll();
    void forget_waits();
    Meeting& meet(Thread& self, unsigned mask, unsigned bytes, bool orders_memory,
                  const Place* place = nullptr);
    bool complete_places();
    void arrive(Thread& self, Meeting& meeting);
    void complete(Warp& warp, Meeting& meeting);
    void leave_meeting(Thread& thread);

    static unsigned number_of(const kiln_host::Thread& thread) {
        return thread.warp * kiln_host::kWarpSize + thread.lane;
    }
    void start_log();
    // Makes a call from a fiber on the stack of the OS thread: an observer may need more than a fiber's.
    template <class Call>
    void on_main_stack(const Call& call) {
        errand_ = {[](const void* what) { (*static_cast<const Call*>(what))(); }, &call, active_};
        continue_with(&main_);
    }
    void tell(const Thread& self) {
        if (log_ != nullptr) [[unlikely]]
            empty_log(self);
    }
    void empty_log(const Thread& self);
    [[noreturn]] void end_early();
    void tell_barrier(const Thread& self, const NamedBarrier& barrier, Positions released);
    Positions take_complete_warps(NamedBarrier& barrier) const;
    void tell_meeting(const Positions& all);
    void tell_meeting(const Warp& warp, const Meeting& meeting);

    void arrange(std::uint64_t block_number);
    void reset_after_failure();
    std::string deadlock() const;
    std::string overrun();
    std::string text_of(const Thread& thread) const;
    std::string place_of(const Thread& thread) const;
    std::string waiting(const Thread& thread) const;

    BlockPlan plan_;
    unsigned thread_count_ = 0;
    std::vector<Thread> threads_;  // by position
    std::vector<Warp> warps_;
    DynamicSharedMemory shared_;

    Positions runnable_;
    Positions at_barrier_;
    unsigned live_ = 0;
    unsigned arrived_ = 0;   // at the block's barrier
    unsigned yes_ = 0;       // of those
    unsigned released_ = 0;  // yes_ of the last barrier
    std::array<NamedBarrier, kNamedBarriers> named_;
    bool named_used_ = false;  // in this block
    Positions polled_;         // those that wait in wait_until
    unsigned polled_count_ = 0;
    std::string failure_;
    bool was_ended_ = false, has_spun_ = false;

    FiberStacks stacks_;
    std::deque<FiberContext> fibers_;
    std::deque<FiberStack> fiber_stacks_;
    std::vector<FiberContext*> idle_;
    FiberContext main_;
    FiberContext* active_ = nullptr;
    Thread* next_ = nullptr;  // for the fiber that is about to run
    const Thread* running_ = nullptr;
    std::deque<Meeting> meetings_;
    Place place_;               // of the thread that comes to active_lanes, whose stack may be dropped
    std::set<Place> places_;    // all that there were
    unsigned open_places_ = 0;  // meetings of active_lanes
    std::vector<Meeting*> free_meetings_;

    struct Errand {
        void (*run)(const void* what) = nullptr;  // null: there is none
        const void* what = nullptr;
        FiberContext* from = nullptr;
    };
    Errand errand_;                         // what the main flow was continued for
    kiln_host::AccessLog* log_ = nullptr;   // null: nobody observes
    std::vector<ObservedAccess> accesses_;  // what the log is a part of

    // Threads that look at flags: nothing but loads and atomics, each of a few places that others may change, and all together of
    // so few that none meets another in a small table.
    class Spin {
      public:
        void reset();
        // With these accesses: whether it has gone on for long.
        bool goes_on(std::span<const ObservedAccess> accesses, const AccessObserver& observer);

      private:
        struct Seen {
            std::uint64_t address, round;
        };
        std::vector<Seen> places_;  // of observed blocks
        std::uint64_t round_ = 1;   // what is of an older one does not count
        std::uint64_t count_ = 0;   // of accesses in this round
        double since_ms_ = 0;       // its first one, in the thread's processor time
    };
    Spin spin_;
    std::vector<unsigned> met_;
};

}  // namespace kiln
