// SPDX-License-Identifier: Apache-2.0
//
// The cost of sharing one shared_ptr among threads is its count: a cache line that they all write. So each
// thread is given copies of a shared_ptr of its own, with a count of its own, which holds the kernel's.
#include "service/kernel_table.h"

#include <cstdint>
#include <utility>

namespace kiln {
namespace {

constexpr std::size_t kFirstSlots = 64;
constexpr std::size_t kCacheLine = 64;

// Aligned, so that the count, which lies before it, has its cache line for itself.
struct alignas(kCacheLine) Share {
    std::shared_ptr<const LoadedKernel> kernel;
};

}  // namespace

struct KernelTable::Entry {
    Entry(const Variant& a_variant, Pointer a_kernel)
        : variant(a_variant), hash(a_variant.hash()), kernel(std::move(a_kernel)) {}
    ~Entry() {
        for (const auto& share : shares) delete share.load(std::memory_order_relaxed);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    Pointer pointer() const {
        const std::size_t slot = thread_slot();
        if (slot == kThreadSlots) return kernel;
        const Pointer* mine = shares[slot].load(std::memory_order_relaxed);
        if (mine == nullptr) [[unlikely]]
            mine = make_share(slot);
        return *mine;
    }

    const Variant variant;
    const std::size_t hash;
    const Pointer kernel;

  private:
    // This thread alone has the slot now; who has it later sees what this one did.
    const Pointer* make_share(std::size_t slot) const {
        const auto share = std::make_shared<const Share>(Share{kernel});
        auto mine = std::make_unique<const Pointer>(share, share->kernel.get());
        shares[slot].store(mine.get(), std::memory_order_relaxed);
        return mine.release();
    }

    mutable std::array<std::atomic<const Pointer*>, kThreadSlots> shares{};
};

KernelTable::Slot& KernelTable::Slots::first(std::size_t hash) const {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / the golden ratio: all bits count
    return slots[static_cast<std::size_t>(hash * kGolden >> 32) & (count - 1)];
}

KernelTable::Slot& KernelTable::Slots::after(const Slot& slot) const {
    return slots[static_cast<std::size_t>(&slot - slots.get() + 1) & (count - 1)];
}

KernelTable::KernelTable() {
    all_slots_.push_back(std::make_unique<const Slots>(kFirstSlots));
    current_ = all_slots_.back().get();
}

KernelTable::~KernelTable() = default;

const KernelTable::Entry* KernelTable::entry(const Variant& variant) const {
    const Slots& slots = *current_.load(std::memory_order_acquire);
    const std::size_t hash = variant.hash();
    for (const Slot* slot = &slots.first(hash);; slot = &slots.after(*slot)) {
        const Entry* const found = slot->load(std::memory_order_acquire);
        if (found == nullptr || (found->hash == hash && found->variant == variant)) return found;
    }
}

KernelTable::Pointer KernelTable::find(const Variant& variant) const {
    const Entry* const found = entry(variant);
    return found == nullptr ? nullptr : found->pointer();
}

KernelTable::Pointer KernelTable::add(const Variant& variant, Pointer kernel) {
    const std::lock_guard lock(adding_);
    if (const Entry* const found = entry(variant)) return found->pointer();
    if (2 * (entries_.size() + 1) > all_slots_.back()->count) grow();
    entries_.push_back(std::make_unique<const Entry>(variant, std::move(kernel)));
    place(*all_slots_.back(), *entries_.back());
    return entries_.back()->pointer();
}

void KernelTable::place(const Slots& slots, const Entry& entry) {
    Slot* slot = &slots.first(entry.hash);
    while (slot->load(std::memory_order_relaxed) != nullptr) slot = &slots.after(*slot);
    slot->store(&entry, std::memory_order_release);
}

void KernelTable::grow() {
    auto larger = std::make_unique<const Slots>(2 * all_slots_.back()->count);
    for (const auto& each : entries_) place(*larger, *each);
    all_slots_.push_back(std::move(larger));
    current_.store(all_slots_.back().get(), std::memory_order_release);
}

}  // namespace kiln
