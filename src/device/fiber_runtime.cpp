// SPDX-License-Identifier: Apache-2.0
//
// The part of FiberBlock that kernels call: barriers, votes and shuffles, and the words for a block in
// which nobody can go on.
#include <dlfcn.h>
#include <unwind.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <utility>

#include "base/source_lines.h"
#include "base/words.h"
#include "device/fiber_block.h"
#include "format/format.h"

namespace kiln {
namespace {

// What the calls around active_lanes return to, but for that function and the one with the place, where the address is
// another in each copy of the code.
struct ReturnAddresses {
    std::vector<std::uintptr_t>& to;
    int left_out = 2;
};

_Unwind_Reason_Code add_return_address(_Unwind_Context* frame, void* all) {
    constexpr std::size_t kMost = 64;
    auto& addresses = *static_cast<ReturnAddresses*>(all);
    const auto address = static_cast<std::uintptr_t>(_Unwind_GetIP(frame));
    if (address == 0 || addresses.to.size() == kMost) return _URC_END_OF_STACK;
    if (--addresses.left_out < 0) addresses.to.push_back(address);
    return _URC_NO_REASON;
}

std::string hex(unsigned mask) {
    std::ostringstream text;
    text << "0x" << std::hex << mask;
    return text.str();
}

// The line of a template or of its header from which a kernel calls; empty: not known, or one of Kiln's.
std::string line_of(const void* code) {
    Dl_info object{};
    if (code == nullptr || ::dladdr(code, &object) == 0 || object.dli_fname == nullptr) return {};
    const auto offset = static_cast<const char*>(code) - static_cast<const char*>(object.dli_fbase);
    const SourcePlace place = place_in_file(object.dli_fname, static_cast<std::uint64_t>(offset));
    return place.line == 0 || place.file.starts_with("kiln/") ? std::string() : place.text();
}

}  // namespace

const kiln_host::Runtime FiberBlock::kRuntime = {
    &sync_block, &sync_warp, &vote,    &exchange, &active_lanes, &sync_named, &arrive_named, &wait_until,
    &trap,       &flush,     &release, &acquire,  &bad_index,    &sync_grid,  &end_if_failed};

unsigned FiberBlock::sync_block(kiln_host::Thread* self, int predicate) {
    FiberBlock& block = of(self);
    Thread& thread = static_cast<Thread&>(*self);
    thread.calls = __builtin_return_address(0);
    block.tell(thread);
    ++block.arrived_;
    block.yes_ += predicate != 0;
    block.at_barrier_.insert(thread.position);
    if (block.arrived_ == block.live_) block.release_block();
    block.wait(thread);
    return block.released_;
}

void FiberBlock::release_block() {
    released_ = yes_;
    arrived_ = yes_ = 0;
    if (log_ != nullptr) [[unlikely]]
        tell_meeting(at_barrier_);
    runnable_.take_all(at_barrier_);
}

void FiberBlock::sync_warp(kiln_host::Thread* self, unsigned mask) {
    FiberBlock& block = of(self);
    Thread& thread = static_cast<Thread&>(*self);
    thread.calls = __builtin_return_address(0);
    block.arrive(thread, block.meet(thread, mask, 0, true));
}

unsigned FiberBlock::vote(kiln_host::Thread* self, unsigned mask, int predicate, unsigned* arrived) {
    FiberBlock& block = of(self);
    Thread& thread = static_cast<Thread&>(*self);
    thread.calls = __builtin_return_address(0);
    Meeting& meeting = block.meet(thread, mask, 0, false);
    if (predicate != 0) meeting.yes |= 1u << self->lane;
    block.arrive(thread, meeting);
    *arrived = meeting.arrived;
    return meeting.yes;
}

const kiln_host::Deposit* FiberBlock::exchange(kiln_host::Thread* self, unsigned mask, const void* value,
                                               unsigned bytes, unsigned* arrived) {
    FiberBlock& block = of(self);
    Thread& thread = static_cast<Thread&>(*self);
    thread.calls = __builtin_return_address(0);
    Meeting& meeting = block.meet(thread, mask, bytes, false);
    std::memcpy(meeting.deposits[self->lane].bytes, value, bytes);
    block.arrive(thread, meeting);
    *arrived = meeting.arrived;
    return meeting.deposits.data();
}

void FiberBlock::sync_named(kiln_host::Thread* self, unsigned id, unsigned count) {
    FiberBlock& block = of(self);
    Thread& thread = static_cast<Thread&>(*self);
    thread.calls = __builtin_return_address(0);
    block.arrive_at(thread, id, count, true);
    thread.barrier = id;
    block.wait(thread);
    thread.barrier = 0;
}

void FiberBlock::arrive_named(kiln_host::Thread* self, unsigned id, unsigned count) {
    if (!of(self).arrive_at(static_cast<Thread&>(*self), id, count, false)) return;
    // A buffer that it gave back too early is overwritten before it reads it.
    wait_until(self, nullptr, nullptr);
}

// Whether that ends a phase.
bool FiberBlock::arrive_at(Thread& self, unsigned id, unsigned count, bool waits) {
    tell(self);
    const auto refuse = [&](const std::string& what) {
        failure_ = formatted("{} comes to the named barrier {} for {}: {}", text_of(self), id,
                             counted(count, "thread", "threads"), what);
    };
    const bool usable = id > 0 && id < kNamedBarriers;
    if (!usable) {
        refuse(formatted("the barriers are 1 to {} (0 is that of __syncthreads())", kNamedBarriers - 1));
    } else if (count == 0 || count % kiln_host::kWarpSize != 0 || count > kMaxBlockThreads) {
        refuse(formatted("their number must be a multiple of 32, up to {}", kMaxBlockThreads));
    } else if (named_[id].count != 0 && named_[id].count != count) {
        refuse("others wait there for " + counted(named_[id].count, "thread", "threads"));
    }
    if (!failure_.empty()) abandon();

    NamedBarrier& barrier = named_[id];
    named_used_ = true;
    barrier.count = count;
    // A GPU counts warps, and a block's last one as a whole, however many lanes it has.
    const unsigned lanes = thread_count_ - self.warp * kiln_host::kWarpSize;
    const unsigned came =
        self.lane == 0 && lanes < kiln_host::kWarpSize ? 1 + kiln_host::kWarpSize - lanes : 1;
    std::uint16_t& of_warp = barrier.lanes[self.warp];
    of_warp = static_cast<std::uint16_t>(of_warp + came);
    barrier.partial += came;
    if (of_warp >= kiln_host::kWarpSize) {
        of_warp = static_cast<std::uint16_t>(of_warp - kiln_host::kWarpSize);
        barrier.partial -= kiln_host::kWarpSize;
        barrier.arrived += kiln_host::kWarpSize;
    }
    if (waits) barrier.waiting.insert(self.position);
    const bool completed = barrier.arrived >= count;
    Positions released;
    if (completed) released = take_complete_warps(barrier);
    if (log_ != nullptr) [[unlikely]]
        tell_barrier(self, barrier, released);
    runnable_.take_all(released);
    if (!completed) return false;
    barrier.arrived = 0;
    if (barrier.partial == 0) barrier.count = 0;
    return true;
}

// Lanes of a warp of which others have not come wait for the next time.
FiberBlock::Positions FiberBlock::take_complete_warps(NamedBarrier& barrier) const {
    Positions taken;
    Positions waiting = std::exchange(barrier.waiting, {});
    if (barrier.partial == 0) return waiting;
    for (int position = waiting.take_first(); position >= 0; position = waiting.take_first()) {
        const auto place = static_cast<unsigned>(position);
        (barrier.lanes[threads_[place].warp] == 0 ? taken : barrier.waiting).insert(place);
    }
    return taken;
}

void FiberBlock::wait_until(kiln_host::Thread* self, int (*ready)(const void*), const void* state) {
    FiberBlock& block = of(self);
    Thread& thread = static_cast<Thread&>(*self);
    thread.calls = __builtin_return_address(0);
    block.tell(thread);
    thread.ready_state = state;
    const auto wait_once = [&] {
        thread.ready = ready;
        block.polled_.insert(thread.position);
        ++block.polled_count_;
        block.wait(thread);
        thread.ready = nullptr;
    };
    if (ready == nullptr) return wait_once();
    // Between the moment in which it was found ready and its turn, others may have run.
    while (ready(state) == 0) wait_once();
}

// Whether a thread that waits in wait_until can continue: those that only let others go on if none else can.
bool FiberBlock::poll() {
    const auto release = [&](const auto& can_go_on) {
        Positions waiting = polled_;
        bool found = false;
        for (int position = waiting.take_first(); position >= 0; position = waiting.take_first()) {
            const auto place = static_cast<unsigned>(position);
            if (!can_go_on(threads_[place])) continue;
            polled_.erase(place);
            --polled_count_;
            runnable_.insert(place);
            found = true;
        }
        return found;
    };
    if (polled_count_ == 0) return false;
    return release([](const Thread& thread) {
               return thread.ready != nullptr && thread.ready(thread.ready_state) != 0;
           }) ||
           release([](const Thread& thread) { return thread.ready == nullptr; });
}

// What a failed block, or arrivals that nobody waited for, left behind.
void FiberBlock::forget_waits() {
    for (NamedBarrier& barrier : named_) barrier = {};
    named_used_ = false;
    polled_.clear();
    polled_count_ = 0;
}

unsigned FiberBlock::active_lanes(kiln_host::Thread* self, const void* place, int line) {
    FiberBlock& block = of(self);
    Thread& thread = static_cast<Thread&>(*self);
    block.place_.assign({static_cast<std::uintptr_t>(line), reinterpret_cast<std::uintptr_t>(place)});
    ReturnAddresses addresses{block.place_};
    _Unwind_Backtrace(&add_return_address, &addresses);
    Meeting& meeting = block.meet(thread, ~0u, 0, false, &*block.places_.insert(block.place_).first);
    block.arrive(thread, meeting);
    return meeting.arrived;
}

// Lanes that leave a loop early wait for the others behind it, since its lines come first.
bool FiberBlock::complete_places() {
    if (open_places_ == 0) return false;
    for (Warp& warp : warps_) {
        std::uintptr_t line = ~std::uintptr_t{0};
        for (const Meeting* const meeting : warp.open) {
            if (meeting->place != nullptr) line = std::min(line, meeting->place->front());
        }
        for (std::size_t i = warp.open.size(); i-- > 0;) {
            Meeting& meeting = *warp.open[i];
            if (meeting.place != nullptr && meeting.place->front() == line) complete(warp, meeting);
        }
    }
    return true;
}

// Of one thread, while all others of the block wait for it at __syncthreads().
void FiberBlock::sync_grid(kiln_host::Thread* self) {
    FiberBlock& block = of(self);
    block.tell(static_cast<const Thread&>(*self));
    if (block.plan_.barrier == nullptr)
        block.failure_ =
            "it calls kiln::sync_grid(), and its blocks need not run at once: its template needs a line "
            "//@ cooperative";
    else if (!block.plan_.barrier->arrive_and_wait())
        block.failure_ =
            "it waits at kiln::sync_grid() for other blocks, and one of them has ended without coming there";
    if (!block.failure_.empty()) block.abandon();
}

void FiberBlock::end_if_failed(kiln_host::Thread* self) {
    FiberBlock& block = of(self);
    const auto* const failed = block.plan_.has_failed;
    if (failed != nullptr && failed->load(std::memory_order_relaxed)) block.end_early();
}

void FiberBlock::end_early() {
    was_ended_ = true;
    failure_ = "it waits for another block, which has failed";
    abandon();
}

void FiberBlock::trap(kiln_host::Thread* self, const char* message) {
    FiberBlock& block = of(self);
    block.tell(static_cast<const Thread&>(*self));
    block.failure_ = block.text_of(static_cast<Thread&>(*self)) + ": " + message;
    block.abandon();
}

// The open meeting of these lanes, or a new one.
FiberBlock::Meeting& FiberBlock::meet(Thread& self, unsigned mask, unsigned bytes, bool orders_memory,
                                      const Place* place) {
    tell(self);
    if ((mask >> self.lane & 1u) == 0) {
        failure_ = formatted(
            "{}: lane {} calls a vote, shuffle or __syncwarp with the mask {}, in which its own bit is not "
            "set",
            text_of(self), self.lane, hex(mask));
        abandon();
    }
    leave_meeting(self);
    Warp& warp = warps_[self.warp];
    for (Meeting* meeting : warp.open) {
        if (meeting->mask == mask && meeting->bytes == bytes && meeting->orders_memory == orders_memory &&
            meeting->place == place)
            return *meeting;
    }
    if (free_meetings_.empty()) free_meetings_.push_back(&meetings_.emplace_back());
    Meeting* const meeting = free_meetings_.back();
    free_meetings_.pop_back();
    meeting->mask = mask;
    meeting->bytes = bytes;
    meeting->orders_memory = orders_memory;
    meeting->place = place;
    open_places_ += place != nullptr ? 1 : 0;
    meeting->arrived = meeting->yes = 0;
    meeting->readers = 0;
    warp.open.push_back(meeting);
    return *meeting;
}

void FiberBlock::arrive(Thread& self, Meeting& meeting) {
    Warp& warp = warps_[self.warp];
    meeting.arrived |= 1u << self.lane;
    ++meeting.readers;
    self.meeting = &meeting;
    self.in_warp_wait = true;
    if ((meeting.mask & warp.live & ~meeting.arrived) == 0) complete(warp, meeting);
    wait(self);
    self.in_warp_wait = false;
}

void FiberBlock::complete(Warp& warp, Meeting& meeting) {
    warp.open.erase(std::find(warp.open.begin(), warp.open.end(), &meeting));
    open_places_ -= meeting.place != nullptr ? 1 : 0;
    if (log_ != nullptr) [[unlikely]]
        tell_meeting(warp, meeting);
    for (unsigned lanes = meeting.arrived; lanes != 0; lanes &= lanes - 1) {
        runnable_.insert(warp.lanes[static_cast<unsigned>(__builtin_ctz(lanes))]->position);
    }
}

void FiberBlock::leave_meeting(Thread& thread) {
    Meeting* const meeting = std::exchange(thread.meeting, nullptr);
    if (meeting != nullptr && --meeting->readers == 0) free_meetings_.push_back(meeting);
}

std::string FiberBlock::text_of(const Thread& thread) const {
    const auto& index = thread.thread_idx;
    return formatted("thread ({},{},{})", index.x, index.y, index.z);
}

std::string FiberBlock::place_of(const Thread& thread) const {
    return formatted("{}, lane {} of warp {}", text_of(thread), thread.lane, thread.warp);
}

// "thread (0,0,0), lane 0 of warp 0, waits in gemm.cu:41"
std::string FiberBlock::waiting(const Thread& thread) const {
    const std::string line = line_of(thread.calls);
    return place_of(thread) + ", waits" + (line.empty() ? "" : " in " + line);
}

std::string FiberBlock::deadlock() const {
    unsigned at_named = 0;
    const Thread* in_vote = nullptr;  // the first of each kind
    const Thread* named = nullptr;
    const Thread* polled = nullptr;
    const Thread* at_block = nullptr;
    for (const Thread& thread : threads_) {
        if (thread.fiber == nullptr) continue;
        at_named += thread.barrier != 0;
        if (thread.in_warp_wait && in_vote == nullptr) in_vote = &thread;
        if (thread.barrier != 0 && named == nullptr) named = &thread;
        if (thread.ready != nullptr && polled == nullptr) polled = &thread;
        const bool elsewhere = thread.in_warp_wait || thread.barrier != 0 || thread.ready != nullptr;
        if (!elsewhere && at_block == nullptr) at_block = &thread;
    }
    std::string text = formatted(
        "its threads wait for each other and none can go on: of {} {} ended, {} wait at __syncthreads()",
        counted(thread_count_, "thread", "threads"), thread_count_ - live_, arrived_);
    if (at_named != 0) text += formatted(", {} at named barriers", at_named);
    if (polled_count_ != 0) text += formatted(", {} for a condition", polled_count_);
    text +=
        formatted(" and {} in a vote, shuffle or __syncwarp()", live_ - arrived_ - at_named - polled_count_);
    if (at_block != nullptr) text += "; " + waiting(*at_block) + " at __syncthreads()";
    if (in_vote != nullptr) {
        const Meeting& meeting = *in_vote->meeting;
        const unsigned missing = meeting.mask & warps_[in_vote->warp].live & ~meeting.arrived;
        text += "; " + waiting(*in_vote) + " with the mask " + hex(meeting.mask) + " for the lanes " +
                hex(missing);
    }
    if (named != nullptr) {
        const NamedBarrier& barrier = named_[named->barrier];
        text += formatted("; {} at barrier {}, where {} of {} have arrived", waiting(*named), named->barrier,
                          barrier.arrived, counted(barrier.count, "thread", "threads"));
        if (barrier.partial != 0)
            text +=
                formatted(", and {} of warps of which others have not: all lanes of a warp arrive together",
                          counted(barrier.partial, "lane", "lanes"));
    }
    if (polled != nullptr) text += "; " + waiting(*polled) + " for a condition that stays false";
    if (polled_count_ == live_) return text;
    return text + ". Every thread of the mask, or of the block, has to reach the same call";
}

}  // namespace kiln
