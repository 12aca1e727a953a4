// SPDX-License-Identifier: Apache-2.0
//
// Groups the accesses of single threads into requests of warps. The k-th execution of an instruction by each
// lane since its last synchronisation is one request, so a request has at most one access of each lane. The
// cost of a request is computed elsewhere (access_totals).
#pragma once

#include <kiln/observe.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "analysis/access_patterns.h"
#include "analysis/access_regions.h"

namespace kiln {

/// One instruction of the recorded code with what it accesses.
struct AccessCode {
    std::uint32_t code = 0, caller = 0;
    std::uint16_t bytes = 0;
    AccessKind kind = AccessKind::load;
    bool unaligned_type = false;
    int variable = kNoVariable;  ///< of shared memory
    bool copied = false;

    bool operator==(const AccessCode&) const = default;
};

/// What the lanes of a warp access together.
struct Request {
    std::uint64_t anchor = 0;  ///< lanes' addresses are kept relative to it
    /// An access that begins at `first`, or up to `span` bytes later, lies within its region and near the
    /// anchor.
    std::uint64_t first = 0, span = 0;
    std::uint64_t code = 0;  ///< code and caller, bytes and kind and type, as in ObservedAccess
    std::uint32_t what = 0;
    std::uint32_t instruction = 0;  ///< the AccessCode's number: that of the first lane
    std::uint32_t source = 0;       ///< the number of the access in the source
    std::uint64_t lanes = 0;        ///< active lanes
    std::uint32_t execution = 0;    ///< k
    std::uint64_t region_first = 0;
};

/// The requests of a warp's lanes between two synchronisations.
struct RequestList {
    unsigned warp = 0;
    unsigned meetings = 0;  ///< synchronisations of each lane since the block's last one
    std::vector<Request> requests;
    std::vector<std::int32_t> relative;  ///< one row of warp_size per request

    std::vector<std::uint32_t> executions;  ///< so far, per instruction
    // The requests' places, per instruction and per access in the source; filled once a lane has diverged
    // from the first.
    std::vector<std::vector<std::uint32_t>> places, source_places;
    /// Not null if this warp has had an equal list before: whether one in this block was free of errors.
    bool* sound_before = nullptr;
    /// Lanes whose accesses are not in the order of the requests, and the order in which each of them made its own.
    std::uint64_t disordered = 0;
    std::vector<std::vector<std::uint32_t>>
        orders;  ///< by lane, only for lanes in `disordered`; may be short

    std::size_t bytes() const {
        return requests.capacity() * sizeof(Request) + relative.capacity() * sizeof(std::int32_t);
    }
};

/// Calls use(request, lane) for every access of the list, those of each lane in the order in which it made them.
template <class Use>
void each_access(const RequestList& list, Use use) {
    for (std::size_t i = 0; i < list.requests.size(); ++i) {
        for (std::uint64_t lanes = list.requests[i].lanes & ~list.disordered; lanes != 0; lanes &= lanes - 1)
            use(i, static_cast<unsigned>(std::countr_zero(lanes)));
    }
    for (std::uint64_t lanes = list.disordered; lanes != 0; lanes &= lanes - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
        for (const std::uint32_t i : list.orders[lane]) use(std::size_t{i}, lane);
    }
}

/// Receives the results of the grouping.
class AccessSink {
  public:
    virtual ~AccessSink() = default;
    /// An instruction that is new in this launch; they are numbered 0, 1, 2, ... Returns the number of its
    /// access in the source, 0, 1, 2, ... Several instructions may share one: a compiler may copy code into the
    /// branches before it, and lanes from different branches still execute it together on a GPU.
    virtual std::uint32_t new_instruction(const AccessCode& code) = 0;
    virtual void out_of_bounds(unsigned thread, const ObservedAccess& access, const Region& region) = 0;
    /// A write to a region that is read-only. As one that is out of bounds, it belongs to no request.
    virtual void read_only(unsigned thread, const ObservedAccess& access) = 0;
    /// A shuffle that reads a lane which does not take part.
    virtual void idle_lane(unsigned thread, const ObservedAccess& access) = 0;
    /// Every access within bounds, in order; only while enabled by tell_each().
    virtual void each_access(unsigned thread, std::uint64_t address, std::uint32_t instruction) = 0;
};

/// Not thread-safe.
class AccessRequests {
  public:
    AccessRequests(unsigned warp_size, AccessSink& sink) : warp_size_(warp_size), sink_(sink) {}

    /// The regions must outlive the launch.
    void begin_launch(const Regions& regions);
    void begin_block(unsigned threads);
    void add(unsigned thread, std::span<const ObservedAccess> accesses);
    /// The thread has synchronised: its later accesses belong to new requests.
    void meet(unsigned thread);
    void tell_each(bool tell) { tell_each_ = tell; }

    /// In the order of warps and meetings.
    std::vector<RequestList*> pending();
    /// Removes all requests and resets the state of all threads.
    void clear();
    /// Removes these lists. Their lanes continue with new requests.
    void clear(const std::vector<RequestList*>& lists);
    /// The size of pending().
    std::size_t pending_bytes() const { return pending_bytes_; }
    /// The list that the thread appends to; nullptr: none yet.
    const RequestList* list_of(unsigned thread) const { return lanes_[thread].list; }

  private:
    struct Lane {
        RequestList* list = nullptr;
        unsigned meetings = 0;
        std::uint32_t next = 0;                 // the request that is expected next
        bool in_step = true;                    // has executed the same as the first lane, up to `next`
        std::uint32_t top = 0;                  // after all of its requests, when diverged
        std::vector<std::uint32_t> executions;  // per instruction, when diverged
    };
    RequestList& list_for(unsigned thread);
    void add_other(unsigned thread, const ObservedAccess& access);
    void leave_step(Lane& lane);
    void index(RequestList& list) const;
    std::uint32_t find_other(RequestList& list, Lane& lane, unsigned number, std::uint64_t address,
                             std::uint32_t instruction) const;
    static void note_order(RequestList& list, unsigned number, std::uint32_t place);
    std::uint64_t distance(const RequestList& list, std::uint32_t place, unsigned number,
                           std::uint64_t address) const;
    std::uint32_t append(RequestList& list, const ObservedAccess& access, const Region& region,
                         std::uint32_t instruction);
    std::uint32_t instruction_of(const AccessCode& code);
    void grow_codes();

    const unsigned warp_size_;
    AccessSink& sink_;
    const Regions* regions_ = nullptr;
    const Region* region_ = nullptr;  // found last
    bool tell_each_ = false;
    std::vector<Lane> lanes_;
    std::vector<std::vector<std::unique_ptr<RequestList>>> warps_;
    std::vector<std::unique_ptr<RequestList>> spare_;
    std::size_t pending_bytes_ = 0;
    std::vector<AccessCode> codes_;          // by number
    std::vector<std::uint32_t> sources_;     // of those
    std::vector<std::uint32_t> copies_;      // by source: instructions that it has
    std::vector<std::uint32_t> code_table_;  // by hash; 0: free, else 1 + number
};

}  // namespace kiln
