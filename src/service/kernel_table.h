// SPDX-License-Identifier: Apache-2.0
//
// KernelTable: the loaded kernels of a service by variant. Finding one takes no lock and, of two threads, neither
// writes where the other reads. Kernels are only ever added.
#pragma once

#include <kiln/template.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/thread_slot.h"
#include "service/loaded_kernel.h"

namespace kiln {

/// Thread-safe. Keeps the kernels.
class KernelTable {
  public:
    using Pointer = std::shared_ptr<const LoadedKernel>;

    KernelTable();
    ~KernelTable();
    KernelTable(const KernelTable&) = delete;
    KernelTable& operator=(const KernelTable&) = delete;

    /// nullptr: it is not there.
    Pointer find(const Variant& variant) const;
    /// The kernel that the table then has: this one, or one that was added before.
    Pointer add(const Variant& variant, Pointer kernel);

  private:
    struct Entry;
    using Slot = std::atomic<const Entry*>;
    /// Open addressing: an entry is at the first free slot from its hash on. At least half of the slots are free.
    struct Slots {
        explicit Slots(std::size_t a_count) : count(a_count), slots(std::make_unique<Slot[]>(a_count)) {}

        Slot& first(std::size_t hash) const;
        Slot& after(const Slot& slot) const;

        const std::size_t count;  ///< a power of two
        const std::unique_ptr<Slot[]> slots;
    };

    const Entry* entry(const Variant& variant) const;
    static void place(const Slots& slots, const Entry& entry);
    void grow();

    std::atomic<const Slots*> current_;
    std::mutex adding_;
    std::vector<std::unique_ptr<const Slots>> all_slots_;  ///< outgrown ones too: they may still be read
    std::vector<std::unique_ptr<const Entry>> entries_;
};

}  // namespace kiln
