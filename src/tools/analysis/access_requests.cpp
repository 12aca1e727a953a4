// SPDX-License-Identifier: Apache-2.0
//
// The lanes of a warp mostly execute the same instructions. The first lane that runs writes the list of
// requests; each other lane steps through it, with one comparison per access. A lane that diverges counts its
// executions of each instruction from there on, and finds its requests by these counts.
#include "analysis/access_requests.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

namespace kiln {
namespace {

// The fields from `code` to `caller`, and from `bytes` to `unaligned_type`, as one number each.
static_assert(offsetof(ObservedAccess, caller) == offsetof(ObservedAccess, code) + 4);
static_assert(offsetof(ObservedAccess, unaligned_type) == offsetof(ObservedAccess, bytes) + 3);

std::uint64_t code_word(const ObservedAccess& access) {
    std::uint64_t word;
    std::memcpy(&word, &access.code, sizeof(word));
    return word;
}
std::uint32_t what_word(const ObservedAccess& access) {
    std::uint32_t word;
    std::memcpy(&word, &access.bytes, sizeof(word));
    return word;
}

// The difference of two addresses that are both this close to a third one fits 32 bits.
constexpr std::uint64_t kFar = std::uint64_t{1} << 30;
bool is_near(std::int64_t distance) {
    return distance < static_cast<std::int64_t>(kFar) && distance >= -static_cast<std::int64_t>(kFar);
}

bool is_write(AccessKind kind) {
    return kind != AccessKind::load && kind != AccessKind::matrix_load && kind != AccessKind::bulk_load;
}

std::uint64_t hash_of(const AccessCode& code) {
    std::uint64_t hash = (std::uint64_t{code.code} << 32 | code.caller) * 0x9e3779b97f4a7c15u;
    hash ^= (std::uint64_t{code.bytes} << 40) ^ static_cast<std::uint64_t>(code.kind) << 8 ^
            static_cast<std::uint64_t>(code.variable + 1) << 16 ^ std::uint64_t{code.unaligned_type};
    hash *= 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
}

}  // namespace

void AccessRequests::begin_launch(const Regions& regions) {
    regions_ = &regions;
    region_ = nullptr;
    codes_.clear();
    sources_.clear();
    copies_.clear();
    code_table_.assign(256, 0);
    lanes_.clear();
    warps_.clear();
    spare_.clear();  // their counts belong to other instructions
    pending_bytes_ = 0;
}

void AccessRequests::begin_block(unsigned threads) {
    lanes_.resize(threads);
    warps_.resize((threads + warp_size_ - 1) / warp_size_);
    clear();
}

void AccessRequests::clear() {
    for (auto& warp : warps_) {
        for (auto& list : warp) spare_.push_back(std::move(list));
        warp.clear();
    }
    for (Lane& lane : lanes_) {
        lane.list = nullptr;
        lane.meetings = 0;
    }
    pending_bytes_ = 0;
}

void AccessRequests::clear(const std::vector<RequestList*>& lists) {
    const auto is_gone = [&](const RequestList* list) {
        return std::find(lists.begin(), lists.end(), list) != lists.end();
    };
    for (Lane& lane : lanes_) {
        if (lane.list != nullptr && is_gone(lane.list)) lane.list = nullptr;
    }
    for (auto& warp : warps_) {
        for (auto& list : warp) {
            if (!is_gone(list.get())) continue;
            pending_bytes_ -= std::min(pending_bytes_, list->bytes());
            spare_.push_back(std::move(list));
        }
        std::erase(warp, nullptr);
    }
}

std::vector<RequestList*> AccessRequests::pending() {
    std::vector<RequestList*> lists;
    for (auto& warp : warps_) {
        for (auto& list : warp) lists.push_back(list.get());
    }
    return lists;
}

void AccessRequests::meet(unsigned thread) {
    Lane& lane = lanes_[thread];
    lane.list = nullptr;
    ++lane.meetings;
}

RequestList& AccessRequests::list_for(unsigned thread) {
    Lane& lane = lanes_[thread];
    if (lane.list != nullptr) return *lane.list;
    auto& lists = warps_[thread / warp_size_];
    const auto place =
        std::lower_bound(lists.begin(), lists.end(), lane.meetings,
                         [](const auto& list, unsigned meetings) { return list->meetings < meetings; });
    if (place != lists.end() && (*place)->meetings == lane.meetings) {
        lane.list = place->get();
    } else {
        if (spare_.empty()) spare_.push_back(std::make_unique<RequestList>());
        auto list = std::move(spare_.back());
        spare_.pop_back();
        list->warp = thread / warp_size_;
        list->meetings = lane.meetings;
        list->requests.clear();
        list->relative.clear();
        list->executions.assign(codes_.size(), 0);
        list->places.clear();
        list->source_places.clear();
        list->disordered = 0;
        list->sound_before = nullptr;
        lane.list = list.get();
        lists.insert(place, std::move(list));
    }
    lane.next = 0;
    lane.in_step = true;
    return *lane.list;
}

void AccessRequests::add(unsigned thread, std::span<const ObservedAccess> accesses) {
    RequestList& list = list_for(thread);
    Lane& lane = lanes_[thread];
    const std::size_t before = list.bytes();
    const unsigned number = thread % warp_size_;
    const std::uint64_t bit = std::uint64_t{1} << number;
    for (auto access = accesses.begin(); access != accesses.end(); ++access) {
        if (lane.in_step && lane.next < list.requests.size()) {
            // The common case, all in registers.
            Request* request = list.requests.data() + lane.next;
            const Request* const end = list.requests.data() + list.requests.size();
            std::int32_t* relative = list.relative.data() + lane.next * std::size_t{warp_size_} + number;
            for (; request != end && access != accesses.end(); ++request, ++access) {
                const bool same = request->code == code_word(*access) &&
                                  request->what == what_word(*access) &&
                                  access->address - request->first <= request->span;
                if (!same) break;
                *relative = static_cast<std::int32_t>(access->address - request->anchor);
                relative += warp_size_;
                request->lanes |= bit;
                if (tell_each_) sink_.each_access(thread, access->address, request->instruction);
            }
            lane.next = static_cast<std::uint32_t>(request - list.requests.data());
            if (access == accesses.end()) break;
        }
        add_other(thread, *access);
    }
    pending_bytes_ += list.bytes() - before;
}

// An access that does not match the next request in the list.
void AccessRequests::add_other(unsigned thread, const ObservedAccess& access) {
    if (access.kind == AccessKind::idle_lane) {
        sink_.idle_lane(thread, access);
        return;
    }
    if (region_ == nullptr || !region_->holds(access.address)) region_ = &regions_->find(access.address);
    const Region& region = *region_;
    if (access.bytes == 0) return;
    if (is_write(access.kind) && regions_->has_read_only(region, access.address, access.bytes)) {
        sink_.read_only(thread, access);
        return;
    }
    if (region.kind == RegionKind::own) {
        if (!region.holds(access.address, access.bytes) &&
            regions_->find(access.address + access.bytes - 1).kind == RegionKind::outside)
            sink_.out_of_bounds(thread, access, region);
        return;
    }
    if (region.kind == RegionKind::gap || region.kind == RegionKind::outside ||
        !region.holds(access.address, access.bytes)) {
        sink_.out_of_bounds(thread, access, region);
        return;
    }
    if (access.kind == AccessKind::bulk_load || access.kind == AccessKind::bulk_store) return;
    const int variable = region.kind == RegionKind::shared ? region.variable : kNoVariable;
    const AccessCode code{access.code,           access.caller, access.bytes, access.kind,
                          access.unaligned_type, variable,      access.copied};
    const std::uint32_t instruction = instruction_of(code);
    if (tell_each_) sink_.each_access(thread, access.address, instruction);

    Lane& lane = lanes_[thread];
    RequestList& list = *lane.list;
    const unsigned number = thread % warp_size_;
    const std::uint64_t bit = std::uint64_t{1} << number;
    const bool at_end = lane.next >= list.requests.size();
    const bool is_new = list.executions.size() <= instruction || list.executions[instruction] == 0;
    // In step: with something new at the end, or with a copy of what the first lane executed.
    if (lane.in_step && !at_end && (!is_new || list.requests[lane.next].source != sources_[instruction]))
        leave_step(lane);
    std::uint32_t place = lane.next;
    if (!lane.in_step) {
        if (lane.executions.size() < codes_.size()) lane.executions.resize(codes_.size(), 0);
        const bool expected = !at_end && list.requests[lane.next].instruction == instruction &&
                              list.requests[lane.next].execution == lane.executions[instruction] &&
                              (list.requests[lane.next].lanes & bit) == 0;
        if (!expected) place = find_other(list, lane, number, access.address, instruction);
    }
    if (place >= list.requests.size()) place = append(list, access, region, instruction);
    const std::uint32_t next = std::max(lane.next, place + 1);
    auto relative = static_cast<std::int64_t>(access.address - list.requests[place].anchor);
    const bool near = is_near(relative);
    if (!near && lane.in_step) leave_step(lane);
    if (!lane.in_step) ++lane.executions[list.requests[place].instruction];
    if (!near) {
        // Too far from the others for a 32-bit offset. It does not share a sector with them either.
        place = append(list, access, region, instruction);
        relative = 0;
    }
    if (!lane.in_step) {
        if ((list.disordered & bit) != 0 || place < lane.top) note_order(list, number, place);
        lane.top = std::max(lane.top, place + 1);
    }
    list.relative[place * std::size_t{warp_size_} + number] = static_cast<std::int32_t>(relative);
    list.requests[place].lanes |= bit;
    lane.next = next;
}

// The lane's next access is at `place`, which is not after all of its earlier ones, or those were already out
// of order.
void AccessRequests::note_order(RequestList& list, unsigned number, std::uint32_t place) {
    const std::uint64_t bit = std::uint64_t{1} << number;
    if (list.orders.size() <= number) list.orders.resize(number + 1);
    std::vector<std::uint32_t>& order = list.orders[number];
    if ((list.disordered & bit) == 0) {
        list.disordered |= bit;
        order.clear();
        for (std::uint32_t i = 0; i < list.requests.size(); ++i) {
            if ((list.requests[i].lanes & bit) != 0) order.push_back(i);
        }
    }
    order.push_back(place);
}

// The request of a lane that has diverged: by its number of executions, or the next copy of the access that a
// compiler put into another branch. If both exist, the one where the nearest lane's address is closer. The
// number of requests means that there is none. Never a request that the lane has used already: it may have
// reached it through a copy.
std::uint32_t AccessRequests::find_other(RequestList& list, Lane& lane, unsigned number,
                                         std::uint64_t address, std::uint32_t instruction) const {
    index(list);
    const auto none = static_cast<std::uint32_t>(list.requests.size());
    const std::uint64_t bit = std::uint64_t{1} << number;
    const auto& places = list.places[instruction];
    std::uint32_t& execution = lane.executions[instruction];
    while (execution < places.size() && (list.requests[places[execution]].lanes & bit) != 0) ++execution;
    const std::uint32_t own = execution < places.size() ? places[execution] : none;
    if (copies_[sources_[instruction]] == 1) return own;
    // Those after all of its own are free.
    const auto& copies = list.source_places[sources_[instruction]];
    const auto next = std::lower_bound(copies.begin(), copies.end(), std::max(lane.next, lane.top));
    const std::uint32_t copy = next != copies.end() ? *next : none;
    if (own == none || copy == none) return std::min(own, copy);
    return distance(list, copy, number, address) <= distance(list, own, number, address) ? copy : own;
}

// From the address of the nearest lane in the request.
std::uint64_t AccessRequests::distance(const RequestList& list, std::uint32_t place, unsigned number,
                                       std::uint64_t address) const {
    const Request& request = list.requests[place];
    const std::uint64_t below = request.lanes & ((std::uint64_t{1} << number) - 1);
    const auto lane = below != 0 ? 63u - static_cast<unsigned>(std::countl_zero(below))
                                 : static_cast<unsigned>(std::countr_zero(request.lanes));
    const auto relative = std::int64_t{list.relative[place * std::size_t{warp_size_} + lane]};
    const std::uint64_t there = request.anchor + static_cast<std::uint64_t>(relative);
    return there < address ? address - there : there - address;
}

void AccessRequests::leave_step(Lane& lane) {
    lane.in_step = false;
    lane.top = lane.next;
    lane.executions.assign(codes_.size(), 0);
    for (std::uint32_t i = 0; i < lane.next; ++i) ++lane.executions[lane.list->requests[i].instruction];
}

// Makes the lists of places, if there are none yet, and long enough.
void AccessRequests::index(RequestList& list) const {
    const bool is_new = list.places.empty();
    list.places.resize(codes_.size());
    list.source_places.resize(copies_.size());
    if (!is_new) return;
    for (std::uint32_t i = 0; i < list.requests.size(); ++i) {
        list.places[list.requests[i].instruction].push_back(i);
        list.source_places[list.requests[i].source].push_back(i);
    }
}

std::uint32_t AccessRequests::append(RequestList& list, const ObservedAccess& access, const Region& region,
                                     std::uint32_t instruction) {
    Request request;
    request.anchor = access.address;
    request.first = region.first;
    std::uint64_t last = region.last - std::min<std::uint64_t>(region.last - region.first, access.bytes - 1u);
    if (access.address - request.first > kFar) request.first = access.address - kFar;
    if (last - access.address >= kFar) last = access.address + kFar - 1;
    request.span = last - request.first;
    request.region_first = region.first;
    request.code = code_word(access);
    request.what = what_word(access);
    request.instruction = instruction;
    request.source = sources_[instruction];
    if (list.executions.size() < codes_.size()) list.executions.resize(codes_.size(), 0);
    request.execution = list.executions[instruction]++;
    const auto place = static_cast<std::uint32_t>(list.requests.size());
    list.requests.push_back(request);
    list.relative.resize(list.relative.size() + warp_size_);
    if (!list.places.empty()) {
        index(list);
        list.places[instruction].push_back(place);
        list.source_places[request.source].push_back(place);
    }
    return place;
}

std::uint32_t AccessRequests::instruction_of(const AccessCode& code) {
    std::size_t at = hash_of(code) & (code_table_.size() - 1);
    for (; code_table_[at] != 0; at = (at + 1) & (code_table_.size() - 1)) {
        if (codes_[code_table_[at] - 1] == code) return code_table_[at] - 1;
    }
    codes_.push_back(code);
    code_table_[at] = static_cast<std::uint32_t>(codes_.size());
    if (codes_.size() * 2 > code_table_.size()) grow_codes();
    sources_.push_back(sink_.new_instruction(code));
    if (copies_.size() <= sources_.back()) copies_.resize(sources_.back() + 1, 0);
    ++copies_[sources_.back()];
    return static_cast<std::uint32_t>(codes_.size() - 1);
}

void AccessRequests::grow_codes() {
    code_table_.assign(code_table_.size() * 2, 0);
    for (std::size_t i = 0; i < codes_.size(); ++i) {
        std::size_t at = hash_of(codes_[i]) & (code_table_.size() - 1);
        while (code_table_[at] != 0) at = (at + 1) & (code_table_.size() - 1);
        code_table_[at] = static_cast<std::uint32_t>(i + 1);
    }
}

}  // namespace kiln
