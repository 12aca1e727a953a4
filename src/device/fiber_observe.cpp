// SPDX-License-Identifier: Apache-2.0
//
// The part of FiberBlock that tells an observer what its threads do. They write their accesses into one log;
// it is emptied before another thread runs and before anything that orders threads, so all that is in it is
// by the thread that runs. The observer is called on the OS thread's own stack, since it may do more than fits a
// fiber's: libdw 0.191 and later read a table of lines with 256 KiB of stack.
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "device/fiber_block.h"

namespace kiln {
namespace {

// What fits the first cache together with the observer's own data.
constexpr std::size_t kLogEntries = 512;

using Told = kiln_host::Access;
static_assert(sizeof(Told) == sizeof(ObservedAccess) && alignof(Told) == alignof(ObservedAccess) &&
              offsetof(Told, address) == offsetof(ObservedAccess, address) &&
              offsetof(Told, code) == offsetof(ObservedAccess, code) &&
              offsetof(Told, caller) == offsetof(ObservedAccess, caller) &&
              offsetof(Told, bytes) == offsetof(ObservedAccess, bytes) &&
              offsetof(Told, kind) == offsetof(ObservedAccess, kind) &&
              offsetof(Told, unaligned_type) == offsetof(ObservedAccess, unaligned_type) &&
              offsetof(Told, copied) == offsetof(ObservedAccess, copied));

constexpr bool agree(kiln_host::AccessKind one, AccessKind other) {
    return static_cast<int>(one) == static_cast<int>(other);
}
static_assert(agree(kiln_host::AccessKind::load, AccessKind::load) &&
              agree(kiln_host::AccessKind::store, AccessKind::store) &&
              agree(kiln_host::AccessKind::atomic, AccessKind::atomic) &&
              agree(kiln_host::AccessKind::matrix_load, AccessKind::matrix_load) &&
              agree(kiln_host::AccessKind::matrix_store, AccessKind::matrix_store) &&
              agree(kiln_host::AccessKind::async_copy, AccessKind::async_copy) &&
              agree(kiln_host::AccessKind::bulk_load, AccessKind::bulk_load) &&
              agree(kiln_host::AccessKind::bulk_store, AccessKind::bulk_store) &&
              agree(kiln_host::AccessKind::barrier_init, AccessKind::barrier_init) &&
              agree(kiln_host::AccessKind::idle_lane, AccessKind::idle_lane) &&
              agree(kiln_host::AccessKind::bulk_begin, AccessKind::bulk_begin));

/// Of this thread: a process that is suspended, or waits for a processor, does not spin.
double processor_ms() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

}  // namespace

void FiberBlock::start_log() {
    log_ = plan_.observer != nullptr ? plan_.kernel->log : nullptr;
    if (log_ == nullptr) return;
    accesses_.resize(kLogEntries);
    log_->next = reinterpret_cast<Told*>(accesses_.data());
    log_->end = log_->next + kLogEntries;
}

void FiberBlock::empty_log(const Thread& self) {
    const auto* const first = accesses_.data();
    const auto count = static_cast<std::size_t>(log_->next - reinterpret_cast<const Told*>(first));
    if (count == 0) return;
    log_->next -= count;
    bool spins = false;
    on_main_stack([&] {
        plan_.observer->accesses(number_of(self), {first, count});
        spins = spin_.goes_on({first, count}, *plan_.observer);
    });
    if (spins) {
        has_spun_ = true;
        end_early();
    }
}

void FiberBlock::Spin::reset() {
    ++round_;
    count_ = 0;
}

bool FiberBlock::Spin::goes_on(std::span<const ObservedAccess> accesses, const AccessObserver& observer) {
    constexpr double kLongMs = 1000;
    constexpr std::uint64_t kMany = 100'000;
    constexpr std::size_t kFlags = 8;      // of a thread; more are a table that it computes with
    constexpr std::size_t kPlaces = 4096;  // a few of each thread
    if (places_.empty()) places_.resize(kPlaces);
    std::array<std::uint64_t, kFlags> flags{};
    std::size_t found = 0;
    for (const ObservedAccess& access : accesses) {
        Seen& seen = places_[access.address / 4 % places_.size()];
        const bool reads = access.kind == AccessKind::load || access.kind == AccessKind::atomic;
        const auto known = flags.begin() + static_cast<std::ptrdiff_t>(found);
        const bool is_new = std::find(flags.begin(), known, access.address) == known;
        if (!reads || (seen.round == round_ && seen.address != access.address) ||
            (is_new && (found == kFlags || !observer.may_change(access.address)))) {
            reset();
            return false;
        }
        if (is_new) flags[found++] = access.address;
        seen = {access.address, round_};
    }
    if (count_ == 0) since_ms_ = processor_ms();
    count_ += accesses.size();
    return count_ > kMany && processor_ms() - since_ms_ > kLongMs;
}

void FiberBlock::tell_meeting(const Positions& all) {
    met_.clear();
    Positions left = all;
    for (int position = left.take_first(); position >= 0; position = left.take_first())
        met_.push_back(number_of(threads_[static_cast<unsigned>(position)]));
    on_main_stack([&] { plan_.observer->meeting(met_, true); });
}

void FiberBlock::tell_meeting(const Warp& warp, const Meeting& meeting) {
    met_.clear();
    bool silent = true;
    for (unsigned lanes = meeting.arrived; lanes != 0; lanes &= lanes - 1) {
        const Thread& thread = *warp.lanes[static_cast<unsigned>(__builtin_ctz(lanes))];
        silent = silent && thread.silent;
        met_.push_back(number_of(thread));
    }
    if (silent) return;
    on_main_stack([&] {
        if (meeting.orders_memory)
            plan_.observer->meeting(met_, false);
        else
            plan_.observer->exchange(met_);
    });
}

// Who waits learns of all that came before the barrier was full, and of nothing that comes later.
void FiberBlock::tell_barrier(const Thread& self, const NamedBarrier& barrier, Positions released) {
    const auto object = reinterpret_cast<std::uint64_t>(&barrier);
    on_main_stack([&] {
        if (!self.silent) plan_.observer->release(number_of(self), object);
        for (int position = released.take_first(); position >= 0; position = released.take_first()) {
            const Thread& thread = threads_[static_cast<unsigned>(position)];
            if (!thread.silent) plan_.observer->acquire(number_of(thread), object);
        }
    });
}

void FiberBlock::flush(kiln_host::Thread* self) { of(self).empty_log(static_cast<const Thread&>(*self)); }

void FiberBlock::release(kiln_host::Thread* self, const void* object) {
    FiberBlock& block = of(self);
    block.empty_log(static_cast<const Thread&>(*self));
    block.on_main_stack(
        [&] { block.plan_.observer->release(number_of(*self), reinterpret_cast<std::uint64_t>(object)); });
}

void FiberBlock::acquire(kiln_host::Thread* self, const void* object) {
    FiberBlock& block = of(self);
    block.empty_log(static_cast<const Thread&>(*self));
    block.on_main_stack(
        [&] { block.plan_.observer->acquire(number_of(*self), reinterpret_cast<std::uint64_t>(object)); });
}

void FiberBlock::bad_index(kiln_host::Thread* self, const kiln_host::BadIndex* what) {
    FiberBlock& block = of(self);
    block.empty_log(static_cast<const Thread&>(*self));
    std::string_view file = what->file;
    if (file.starts_with("./")) file.remove_prefix(2);
    std::string_view type = what->array_type;  // in quotes
    if (type.size() >= 2 && type.front() == '\'') type = type.substr(1, type.size() - 2);
    std::string spaced(type);  // Clang writes "float[64]"
    if (const auto extent = spaced.find('[');
        extent != std::string::npos && extent > 0 && spaced[extent - 1] != ' ')
        spaced.insert(extent, " ");
    const ObservedBadIndex bad = {std::string(file), what->line, std::move(spaced), what->index};
    block.on_main_stack([&] { block.plan_.observer->bad_index(number_of(*self), bad); });
}

}  // namespace kiln
