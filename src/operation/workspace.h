// SPDX-License-Identifier: Apache-2.0
//
// Workspaces: scratch memory of kernels, one for each stream, since launches of one stream run one after the other.
// A workspace has two parts: one that every kernel finds zero and leaves so, and one of any content.
#pragma once

#include <kiln/device.h>
#include <kiln/operation.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/thread_slot.h"
#include "operation/signature.h"

namespace kiln {

/// Thread-safe, but for the destructor.
class Workspaces {
  public:
    Workspaces(const Device& device, WorkspaceAllocator allocator, std::size_t most_streams);
    /// Frees all.
    ~Workspaces();
    Workspaces(const Workspaces&) = delete;
    Workspaces& operator=(const Workspaces&) = delete;

    struct Memory {
        void* data = nullptr;
        std::size_t bytes = 0;
        bool is_captured = false;  ///< a captured launch uses it
    };
    struct OfStream {
        std::uintptr_t stream = 0;
        std::mutex mutex;
        Memory zero, plain;
        StreamRef last = StreamRef::legacy_default();
        bool is_evicted = false;                 ///< it holds nothing, and never will again
        std::atomic<std::uint64_t> last_use{0};  ///< in leases of new streams
    };

    /// A stream's workspace, which is this thread's until it is destroyed: until its launch is queued.
    class Lease {
      public:
        Lease(std::shared_ptr<OfStream> memory, std::unique_lock<std::mutex> lock)
            : memory_(std::move(memory)), lock_(std::move(lock)) {}
        std::byte* zero() const { return static_cast<std::byte*>(memory_->zero.data); }
        std::byte* plain() const { return static_cast<std::byte*>(memory_->plain.data); }

      private:
        friend class Workspaces;
        std::shared_ptr<OfStream> memory_;
        std::unique_lock<std::mutex> lock_;
    };

    /// At least this much. Throws NotReadyError where it would have to allocate and `stream` is being captured,
    /// DeviceError, and what the allocator throws. shape: for messages.
    Lease lease(StreamRef stream, std::size_t zero_bytes, std::size_t plain_bytes, const Signature& signature,
                const ShapeKey& shape);

    /// Queues that what launches have to find zero, of which there is some, is made so.
    void clear(const Lease& lease, StreamRef stream) noexcept;

    std::size_t streams() const;
    std::size_t bytes() const;
    /// What captured launches use, too.
    void release();

  private:
    std::shared_ptr<OfStream> of(std::uintptr_t stream);
    void grow(Memory& memory, std::size_t bytes, bool is_zero, StreamRef stream);
    /// Whether it is kept, since a graph's launches use it: else the caller frees it.
    bool keep(const Memory& memory, StreamRef stream);
    void free(const Memory& memory, StreamRef last) noexcept;

    const Device device_;
    const WorkspaceAllocator allocator_;
    const std::size_t most_streams_;
    mutable std::mutex mutex_;
    std::vector<std::shared_ptr<OfStream>> streams_;
    struct Kept {
        Memory memory;
        StreamRef last;
    };
    mutable std::mutex kept_mutex_;       ///< the last to be locked
    std::vector<Kept> kept_;              ///< of streams that outgrew it or were evicted, but graphs use it
    std::atomic<std::uint64_t> time_{0};  ///< counts streams that came
    /// What each thread had last: most threads use one stream, and find its workspace without `mutex_`.
    struct alignas(64) Last {
        std::uintptr_t stream = 0;
        std::shared_ptr<OfStream> memory;
    };
    std::array<Last, kThreadSlots> last_;
};

}  // namespace kiln
