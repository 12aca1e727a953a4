// SPDX-License-Identifier: Apache-2.0
#include "operation/shape_table.h"

#include <algorithm>
#include <utility>

namespace kiln {
namespace {

constexpr std::size_t kFirstSlots = 64;

}  // namespace

struct ShapeTable::Slots {
    explicit Slots(std::size_t a_count)
        : mask(a_count - 1), entries(std::make_unique<std::atomic<ShapeEntry*>[]>(a_count)) {}

    const std::size_t mask;  ///< their number, a power of two, less one
    const std::unique_ptr<std::atomic<ShapeEntry*>[]> entries;
};

ShapeTable::ShapeTable(std::size_t sizes) : sizes_(sizes), slots_(std::make_unique<Slots>(kFirstSlots)) {
    current_ = slots_.get();
}
ShapeTable::~ShapeTable() = default;

std::size_t ShapeTable::hash(const ShapeKey& key) const noexcept {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / the golden ratio: all bits count
    std::uint64_t mixed = 0;
    for (std::size_t i = 0; i < sizes_; ++i) mixed = (mixed ^ static_cast<std::uint64_t>(key[i])) * kGolden;
    return static_cast<std::size_t>(mixed >> 32);
}

ShapeEntry* ShapeTable::find(const ShapeKey& key) const noexcept {
    const Slots& slots = *current_.load(std::memory_order_seq_cst);
    for (std::size_t i = hash(key) & slots.mask;; i = (i + 1) & slots.mask) {
        ShapeEntry* const entry = slots.entries[i].load(std::memory_order_acquire);
        if (entry == nullptr) return nullptr;
        if (!std::equal(key.begin(), key.begin() + static_cast<std::ptrdiff_t>(sizes_), entry->key.begin()))
            continue;
        // Written only when it changes, so that the line stays shared.
        const std::uint32_t now = time_.load(std::memory_order_relaxed);
        if (entry->used.load(std::memory_order_relaxed) != now)
            entry->used.store(now, std::memory_order_relaxed);
        return entry;
    }
}

ShapeEntry& ShapeTable::insert(const ShapeKey& key, std::size_t most) {
    if (ShapeEntry* const found = find(key)) return *found;
    time_.fetch_add(1, std::memory_order_relaxed);
    if (entries_.size() >= std::max<std::size_t>(most, 1)) {
        std::ranges::stable_sort(entries_, std::greater<>(), [](const auto& entry) {
            return entry->used.load(std::memory_order_relaxed);
        });
        while (entries_.size() > most / 2) {
            retired_entries_.push_back(std::move(entries_.back()));
            entries_.pop_back();
        }
        relink();
    } else if (2 * (entries_.size() + 1) > slots_->mask + 1) {
        relink();
    }
    auto entry = std::make_unique<ShapeEntry>();
    entry->key = key;
    entry->used = time_.load(std::memory_order_relaxed);
    place(*slots_, *entry);
    entries_.push_back(std::move(entry));
    return *entries_.back();
}

void ShapeTable::clear() {
    for (auto& entry : entries_) retired_entries_.push_back(std::move(entry));
    entries_.clear();
    relink();
}

void ShapeTable::place(Slots& slots, ShapeEntry& entry) {
    std::size_t i = hash(entry.key) & slots.mask;
    while (slots.entries[i].load(std::memory_order_relaxed) != nullptr) i = (i + 1) & slots.mask;
    slots.entries[i].store(&entry, std::memory_order_release);
}

void ShapeTable::relink() {
    std::size_t count = kFirstSlots;
    while (count < 4 * (entries_.size() + 1)) count *= 2;
    auto slots = std::make_unique<Slots>(count);
    for (const auto& entry : entries_) place(*slots, *entry);
    retired_slots_.push_back(std::exchange(slots_, std::move(slots)));
    current_.store(slots_.get(), std::memory_order_seq_cst);
    free_retired();
}

void ShapeTable::free_retired() {
    for (const ReaderCount& reader : readers_)
        if (reader.count.load(std::memory_order_seq_cst) != 0) return;  // the next relink() tries again
    retired_slots_.clear();
    retired_entries_.clear();
}

}  // namespace kiln
