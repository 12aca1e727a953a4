// SPDX-License-Identifier: Apache-2.0
#include "analysis/race_detector.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

namespace kiln {
namespace {

constexpr std::uint32_t kPartly = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kWord = 4;

// A byte's last writer: interval << 12 | kMany | kAtomic | thread. Of several threads, the first.
constexpr unsigned kThreadBits = 10;  // a block has up to 1024
constexpr std::uint32_t kAtomic = 1u << kThreadBits;
constexpr std::uint32_t kMany = 2u << kThreadBits;  // several threads, by atomic operations
constexpr unsigned kIntervalShift = kThreadBits + 2;
constexpr std::uint32_t kIntervals = 1u << (32 - kIntervalShift);

constexpr unsigned thread_of(std::uint32_t writer) { return writer & (kAtomic - 1); }

RaceAccess access_of(AccessKind kind) {
    switch (kind) {
        case AccessKind::load:
        case AccessKind::matrix_load:
            return RaceAccess::read;
        case AccessKind::atomic:
        case AccessKind::barrier_use:
            return RaceAccess::atomic;
        default:
            return RaceAccess::write;
    }
}

}  // namespace

RaceDetector::RaceDetector(const Regions& regions, unsigned threads, unsigned warp_size,
                           std::function<void(const RaceFinding&)> report)
    : regions_(regions), threads_(threads), warp_size_(warp_size), report_(std::move(report)) {
    const auto bytes = static_cast<std::size_t>(regions.shared_bytes());
    writers_.resize(bytes);
    written_by_.resize(bytes);
    written_.resize(bytes / kWord);
    last_write_.resize(bytes / kWord);
    begin_block();
}

void RaceDetector::begin_block() {
    std::ranges::fill(written_, std::uint8_t{0});
    std::ranges::fill(last_write_, kPartly);
    under_way_.clear();
    boxes_.clear();
    next_interval();
}

void RaceDetector::next_interval() {
    if (++interval_ == kIntervals) {
        std::ranges::fill(writers_, 0u);
        for (std::uint32_t& last : last_write_) {
            if (last != kPartly) last = 0;
        }
        interval_ = 1;
    }
    second_.clear();
    one_by_one_ = false;
}

// The access of one lane of a request for shared memory.
std::uint64_t RaceDetector::offset_of(const RequestList& list, std::size_t request, unsigned lane,
                                      const AccessCode& code) const {
    const std::int64_t relative = list.relative[request * warp_size_ + lane];
    return regions_.offset(list.requests[request].anchor, code.variable) +
           static_cast<std::uint64_t>(relative);
}

bool RaceDetector::has_copies(std::span<RequestList* const> pending,
                              std::span<const AccessCode> codes) const {
    if (!under_way_.empty() || !boxes_.empty()) return true;
    const auto begins = [](const AccessCode& code) { return code.kind == AccessKind::async_copy; };
    return std::ranges::any_of(codes, begins) && std::ranges::any_of(pending, [&](const RequestList* list) {
               return std::ranges::any_of(list->requests, [&](const Request& request) {
                   return begins(codes[request.instruction]);
               });
           });
}

void RaceDetector::meet_all(std::span<RequestList* const> pending, std::span<const AccessCode> codes) {
    if (!one_by_one_ && has_copies(pending, codes)) begin_one_by_one(pending, codes);
    if (!one_by_one_) {
        bool written = false;
        for (const RequestList* const list : pending) {
            for (std::size_t i = 0; i < list->requests.size(); ++i) {
                const std::uint32_t instruction = list->requests[i].instruction;
                const AccessCode& code = codes[instruction];
                const RaceAccess access = access_of(code.kind);
                if (code.variable == kNoVariable || access == RaceAccess::read) continue;
                written = true;
                for (std::uint64_t lanes = list->requests[i].lanes; lanes != 0; lanes &= lanes - 1) {
                    const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
                    note_write(list->warp * warp_size_ + lane, offset_of(*list, i, lane, code), code.bytes,
                               access, instruction);
                }
            }
        }
        for (const RequestList* const list : pending) {
            // A list that was free of errors remains so until the next write.
            if (!written && list->sound_before != nullptr && *list->sound_before) continue;
            const bool sound = check_list(*list, codes) && !written;
            if (sound && list->sound_before != nullptr) *list->sound_before = true;
        }
    }
    next_interval();
}

// Checks each lane's reads, in its order. True: there were none to check.
bool RaceDetector::check_list(const RequestList& list, std::span<const AccessCode> codes) {
    bool sound = true;
    const auto check = [&](std::size_t i, unsigned lane, const AccessCode& code) {
        const RaceAccess access = access_of(code.kind);
        const unsigned thread = list.warp * warp_size_ + lane;
        const std::uint64_t offset = offset_of(list, i, lane, code);
        if (access != RaceAccess::write)
            check_read(thread, offset, code.bytes, access, list.requests[i].instruction);
        if (access != RaceAccess::read) initialise(offset, code.bytes);
    };
    for (std::size_t i = 0; i < list.requests.size(); ++i) {
        const AccessCode& code = codes[list.requests[i].instruction];
        if (code.variable == kNoVariable) continue;
        if (access_of(code.kind) == RaceAccess::read && nothing_to_check(list, i, code)) continue;
        sound = false;
        for (std::uint64_t lanes = list.requests[i].lanes & ~list.disordered; lanes != 0; lanes &= lanes - 1)
            check(i, static_cast<unsigned>(std::countr_zero(lanes)), code);
    }
    if (sound) return true;
    for (std::uint64_t lanes = list.disordered; lanes != 0; lanes &= lanes - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
        for (const std::uint32_t i : list.orders[lane]) {
            const AccessCode& code = codes[list.requests[i].instruction];
            if (code.variable != kNoVariable) check(i, lane, code);
        }
    }
    return false;
}

void RaceDetector::note_write(unsigned thread, std::uint64_t offset, unsigned bytes, RaceAccess access,
                              std::uint32_t instruction) {
    std::uint32_t writer = interval_ << kIntervalShift | thread;
    if (access == RaceAccess::atomic) writer |= kAtomic;
    RaceFinding finding;
    for (std::uint64_t at = offset; at < offset + bytes; ++at) {
        const std::uint32_t before = writers_[at];
        // A thread's store stays recorded when the same thread goes on with atomic operations, which it conflicts with
        // where those of others are.
        if (before >> kIntervalShift == interval_ && thread_of(before) == thread &&
            (before & (kMany | kAtomic)) == 0 && access == RaceAccess::atomic)
            continue;
        if (before >> kIntervalShift == interval_ && (thread_of(before) != thread || (before & kMany) != 0)) {
            if ((before & writer & kAtomic) != 0) {
                if ((before & kMany) == 0) second_[at] = {thread, instruction, 1};
                writers_[at] = before | kMany;
                continue;
            }
            const RaceOther other = writer_other_than(thread, at);
            if (finding.bytes == 0) {
                finding.thread = thread;
                finding.instruction = instruction;
                finding.other = other;
                finding.offset = at;
            }
            finding.bytes += other.thread == finding.other.thread;
        }
        writers_[at] = writer;
        written_by_[at] = instruction;
    }
    for (std::uint64_t word = offset / kWord; word <= (offset + bytes - 1) / kWord; ++word) {
        if (last_write_[word] != kPartly) last_write_[word] = interval_;
    }
    if (finding.bytes != 0) report_(finding);
}

// A thread that wrote this byte in this interval, other than `thread`; there is one.
RaceOther RaceDetector::writer_other_than(unsigned thread, std::uint64_t at) const {
    const unsigned first = thread_of(writers_[at]);
    return first != thread ? RaceOther{first, written_by_[at], 1} : second_.at(at);
}

// Most loads read words that were completely written in earlier intervals.
bool RaceDetector::nothing_to_check(const RequestList& list, std::size_t index,
                                    const AccessCode& code) const {
    const Request& request = list.requests[index];
    const std::int32_t* const relative = list.relative.data() + index * warp_size_;
    const std::uint64_t offset = regions_.offset(request.anchor, code.variable);
    const std::uint32_t* const last = last_write_.data();
    const std::uint64_t to_end = code.bytes - 1u;
    bool checked = true;
    const auto check = [&](unsigned lane) {
        const std::uint64_t at = offset + static_cast<std::uint64_t>(std::int64_t{relative[lane]});
        checked = checked && last[at / kWord] < interval_ && last[(at + to_end) / kWord] < interval_;
        for (std::uint64_t byte = kWord; byte < to_end; byte += kWord)
            checked = checked && last[(at + byte) / kWord] < interval_;
    };
    const std::uint64_t all = ~std::uint64_t{0} >> (kMostLanes - warp_size_);
    if (request.lanes == all) {
        for (unsigned lane = 0; lane < warp_size_ && checked; ++lane) check(lane);
    } else {
        for (std::uint64_t lanes = request.lanes; lanes != 0 && checked; lanes &= lanes - 1)
            check(static_cast<unsigned>(std::countr_zero(lanes)));
    }
    return checked;
}

void RaceDetector::check_read(unsigned thread, std::uint64_t offset, unsigned bytes, RaceAccess access,
                              std::uint32_t instruction) {
    RaceFinding race, empty;
    race.thread = empty.thread = thread;
    race.instruction = empty.instruction = instruction;
    empty.uninitialised = true;
    for (std::uint64_t at = offset; at < offset + bytes; ++at) {
        const std::uint32_t writer = writers_[at];
        const bool written_now = writer >> kIntervalShift == interval_;
        const bool by_others = written_now && (thread_of(writer) != thread || (writer & kMany) != 0);
        const bool both_atomic = access == RaceAccess::atomic && (writer & kAtomic) != 0;
        // Races between two writes were found when the writes were recorded.
        if (by_others && access == RaceAccess::read) {
            const RaceOther other = writer_other_than(thread, at);
            if (race.bytes == 0) {
                race.other = other;
                race.offset = at;
            }
            race.bytes += other.thread == race.other.thread;
            continue;
        }
        if ((written_[at / kWord] >> at % kWord & 1u) != 0) continue;
        // The same holds for unordered writes by other threads.
        if (by_others && !both_atomic) continue;
        if (empty.bytes++ == 0) empty.offset = at;
    }
    if (race.bytes != 0) report_(race);
    if (empty.bytes != 0) report_(empty);
}

void RaceDetector::initialise(std::uint64_t offset, unsigned bytes) {
    constexpr unsigned kWhole = 0xf;
    for (std::uint64_t at = offset; at < offset + bytes;) {
        const std::uint64_t word = at / kWord, end = std::min((word + 1) * kWord, offset + bytes);
        if (last_write_[word] == kPartly) {
            written_[word] =
                static_cast<std::uint8_t>(written_[word] | ((1u << (end - at)) - 1) << at % kWord);
            if (written_[word] == kWhole) last_write_[word] = interval_;
        }
        at = end;
    }
}

void RaceDetector::begin_one_by_one(std::span<RequestList* const> pending,
                                    std::span<const AccessCode> codes) {
    if (one_by_one_) return;
    if (cells_ == nullptr)
        cells_ = std::make_unique<RaceCells>(static_cast<std::size_t>(regions_.shared_bytes() / kWord),
                                             warp_size_);
    cells_->start();
    clocks_.start(threads_);
    one_by_one_ = true;
    for (const RequestList* const list : pending) {
        each_access(*list, [&](std::size_t i, unsigned lane) {
            const Request& request = list->requests[i];
            const std::int64_t relative = list->relative[i * warp_size_ + lane];
            access(list->warp * warp_size_ + lane, request.anchor + static_cast<std::uint64_t>(relative),
                   request.instruction, codes[request.instruction]);
        });
    }
}

// The copy that an access to the bytes of `mask` meets, be it the thread's own. Notes those that begin and arrive.
std::optional<RaceOther> RaceDetector::copy_under_way(std::size_t word, unsigned mask, unsigned thread,
                                                      AccessKind kind, std::uint32_t instruction) {
    std::optional<RaceOther> met;
    if (const auto found = under_way_.find(word); found != under_way_.end()) {
        const bool arrives = kind == AccessKind::async_arrival && found->second.thread == thread;
        if (!arrives) met = found->second;
        // A race is reported once.
        under_way_.erase(found);
    }
    if (met) met->mask = mask;
    if (kind == AccessKind::async_copy)
        under_way_.insert_or_assign(word, RaceOther{thread, instruction, mask});
    return met;
}

void RaceDetector::access(unsigned thread, std::uint64_t address, std::uint32_t instruction,
                          const AccessCode& code) {
    if (code.variable == kNoVariable) return;
    const std::uint64_t offset = regions_.offset(address, code.variable);
    // TMA's arrivals are not checked, but its beginnings: the thread that finds a box is not the one that loads it.
    if (code.kind == AccessKind::bulk_arrival) {
        boxes_.arrive(offset, offset + code.bytes);
        initialise(offset, code.bytes);
        return;
    }
    const RaceAccess kind = access_of(code.kind);
    std::optional<RaceFinding> race, empty;
    const auto find = [&](std::optional<RaceFinding>& finding, std::uint64_t at, unsigned bytes) {
        if (!finding) {
            finding.emplace();
            finding->thread = thread;
            finding->instruction = instruction;
            finding->offset = at;
        }
        finding->bytes += bytes;
    };
    for (std::uint64_t at = offset; at < offset + code.bytes;) {
        const std::uint64_t word = at / kWord, end = std::min((word + 1) * kWord, offset + code.bytes);
        const unsigned mask = ((1u << (end - at)) - 1) << at % kWord;
        const auto copy = copy_under_way(word, mask, thread, code.kind, instruction);
        auto other = cells_->access(word, mask, thread, kind, instruction, clocks_);
        if (copy && !other) other = copy;
        if (other) {
            const bool first = !race;
            find(race, word * kWord + static_cast<unsigned>(std::countr_zero(other->mask)),
                 static_cast<unsigned>(std::popcount(other->mask)));
            if (first) race->other = *other;
        } else if (kind != RaceAccess::write && last_write_[word] == kPartly) {
            const unsigned missing = mask & ~unsigned{written_[word]};
            if (missing != 0)
                find(empty, word * kWord + static_cast<unsigned>(std::countr_zero(missing)),
                     static_cast<unsigned>(std::popcount(missing)));
        }
        at = end;
    }
    if (const auto box = boxes_.find(offset, offset + code.bytes)) {
        empty.reset();  // it is there later
        if (!race) {
            const std::uint64_t begin = std::max(offset, box->begin);
            find(race, begin, static_cast<unsigned>(std::min(offset + code.bytes, box->end) - begin));
            race->other = RaceOther{box->thread, box->instruction, 1};
        }
    }
    if (code.kind == AccessKind::bulk_begin) boxes_.add({offset, offset + code.bytes, thread, instruction});
    if (race) report_(*race);
    if (empty) {
        empty->uninitialised = true;
        report_(*empty);
    }
    // What a load of TMA will bring is there when it arrives.
    if (kind != RaceAccess::read && code.kind != AccessKind::bulk_begin) initialise(offset, code.bytes);
}

}  // namespace kiln
