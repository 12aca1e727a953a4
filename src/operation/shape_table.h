// SPDX-License-Identifier: Apache-2.0
//
// ShapeTable: what an operation remembers of each shape. Finding a shape takes no lock, and threads that only find
// write nothing that others read, but a stamp of use now and then.
//
// Readers announce themselves in a counter of their own (one cache line for each of kThreadSlots threads), so that
// what a writer took out can be freed when no reader that may still see it is left: the writer unlinks, then looks at
// the counters, all in one total order of sequentially consistent operations; a reader that it does not see counts
// itself after that, and finds only what is still linked.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/thread_slot.h"
#include "operation/launch_plan.h"
#include "operation/signature.h"

namespace kiln {

/// One shape. `plan` may be replaced; all others are the writers'.
struct ShapeEntry {
    ShapeKey key{};
    std::atomic<const LaunchPlan*> plan{nullptr};  ///< what a call launches; nullptr: nothing is built
    mutable std::atomic<std::uint32_t> used{0};    ///< the table's time of the last use
    std::vector<std::shared_ptr<const LaunchPlan>> plans;  ///< all that `plan` ever was
};

/// find() is thread-safe, within a Reader; everything else needs the writers' own lock.
class ShapeTable {
  public:
    /// sizes: how many of a key are in use; the others are zero.
    explicit ShapeTable(std::size_t sizes);
    ~ShapeTable();
    ShapeTable(const ShapeTable&) = delete;
    ShapeTable& operator=(const ShapeTable&) = delete;

    /// While it lives, what find() gave stays.
    class Reader {
      public:
        explicit Reader(const ShapeTable& table) : count_(table.readers_[thread_slot()].count) {
            count_.fetch_add(1, std::memory_order_seq_cst);
        }
        ~Reader() { count_.fetch_sub(1, std::memory_order_release); }
        Reader(const Reader&) = delete;
        Reader& operator=(const Reader&) = delete;

      private:
        std::atomic<std::uint32_t>& count_;
    };

    /// nullptr: it is not there. Marks it as used.
    ShapeEntry* find(const ShapeKey& key) const noexcept;
    /// The entry of this key, new where there was none. Where there are `most`, the older half goes first.
    ShapeEntry& insert(const ShapeKey& key, std::size_t most);
    void clear();
    const std::vector<std::unique_ptr<ShapeEntry>>& entries() const { return entries_; }

  private:
    /// Open addressing: an entry is at the first free slot from its hash on. At least half of the slots are free.
    struct Slots;
    struct alignas(64) ReaderCount {
        std::atomic<std::uint32_t> count{0};
    };

    std::size_t hash(const ShapeKey& key) const noexcept;
    void place(Slots& slots, ShapeEntry& entry);
    /// Links a table of all entries that has room for one more.
    void relink();
    void free_retired();

    const std::size_t sizes_;
    std::atomic<const Slots*> current_;
    mutable std::array<ReaderCount, kThreadSlots + 1> readers_;
    std::atomic<std::uint32_t> time_{1};  ///< counts insertions
    std::unique_ptr<Slots> slots_;
    std::vector<std::unique_ptr<ShapeEntry>> entries_;
    std::vector<std::unique_ptr<Slots>> retired_slots_;
    std::vector<std::unique_ptr<ShapeEntry>> retired_entries_;
};

}  // namespace kiln
