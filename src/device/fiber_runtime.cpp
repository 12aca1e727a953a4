// SPDX-License-Identifier: Apache-2.0
//
// The part of FiberBlock that kernels call: barriers, votes and shuffles, and the words for a block in
// which nobody can go on.
#include <algorithm>
#include <cstring>
#include <sstream>
#include <utility>

#include "device/fiber_block.h"

namespace kiln {
namespace {

std::string hex(unsigned mask) {
    std::ostringstream text;
    text << "0x" << std::hex << mask;
    return text.str();
}

std::string count_of(unsigned count, const char* noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

const kiln_host::Runtime FiberBlock::kRuntime = {&sync_block, &sync_warp, &exchange, &live_lanes, &trap};

unsigned FiberBlock::sync_block(kiln_host::Thread* self, int predicate) {
    FiberBlock& block = of(self);
    Thread& thread = static_cast<Thread&>(*self);
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
    runnable_.take_all(at_barrier_);
}

unsigned FiberBlock::sync_warp(kiln_host::Thread* self, unsigned mask, int predicate, unsigned* arrived) {
    FiberBlock& block = of(self);
    Thread& thread = static_cast<Thread&>(*self);
    Meeting& meeting = block.meet(thread, mask, 0);
    if (predicate != 0) meeting.yes |= 1u << self->lane;
    block.arrive(thread, meeting);
    *arrived = meeting.arrived;
    return meeting.yes;
}

const kiln_host::Deposit* FiberBlock::exchange(kiln_host::Thread* self, unsigned mask, const void* value,
                                               unsigned bytes, unsigned* arrived) {
    FiberBlock& block = of(self);
    Thread& thread = static_cast<Thread&>(*self);
    Meeting& meeting = block.meet(thread, mask, bytes);
    std::memcpy(meeting.deposits[self->lane].bytes, value, bytes);
    block.arrive(thread, meeting);
    *arrived = meeting.arrived;
    return meeting.deposits.data();
}

unsigned FiberBlock::live_lanes(kiln_host::Thread* self) { return of(self).warps_[self->warp].live; }

void FiberBlock::trap(kiln_host::Thread* self, const char* message) {
    FiberBlock& block = of(self);
    block.failure_ = block.text_of(static_cast<Thread&>(*self)) + ": " + message;
    block.abandon();
}

// The open meeting of these lanes, or a new one.
FiberBlock::Meeting& FiberBlock::meet(Thread& self, unsigned mask, unsigned bytes) {
    if ((mask >> self.lane & 1u) == 0) {
        failure_ = text_of(self) + ": lane " + std::to_string(self.lane) +
                   " calls a vote, shuffle or __syncwarp with the mask " + hex(mask) +
                   ", in which its own bit is not set";
        abandon();
    }
    leave_meeting(self);
    Warp& warp = warps_[self.warp];
    for (Meeting* meeting : warp.open) {
        if (meeting->mask == mask && meeting->bytes == bytes) return *meeting;
    }
    if (free_meetings_.empty()) free_meetings_.push_back(&meetings_.emplace_back());
    Meeting* const meeting = free_meetings_.back();
    free_meetings_.pop_back();
    meeting->mask = mask;
    meeting->bytes = bytes;
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
    return "thread (" + std::to_string(index.x) + "," + std::to_string(index.y) + "," +
           std::to_string(index.z) + ")";
}

std::string FiberBlock::deadlock() const {
    std::string text = "its threads wait for each other and none can go on: of " +
                       count_of(thread_count_, "thread") + " " + std::to_string(thread_count_ - live_) +
                       " ended, " + std::to_string(arrived_) + " wait at __syncthreads() and " +
                       std::to_string(live_ - arrived_) + " in a vote, shuffle or __syncwarp()";
    for (const Thread& thread : threads_) {
        if (thread.fiber == nullptr || !thread.in_warp_wait) continue;
        const Meeting& meeting = *thread.meeting;
        const unsigned missing = meeting.mask & warps_[thread.warp].live & ~meeting.arrived;
        text += "; " + text_of(thread) + ", lane " + std::to_string(thread.lane) + " of warp " +
                std::to_string(thread.warp) + ", waits with the mask " + hex(meeting.mask) +
                " for the lanes " + hex(missing);
        break;
    }
    return text + ". Every thread of the mask, or of the block, has to reach the same call";
}

}  // namespace kiln
