// SPDX-License-Identifier: Apache-2.0
//
// The memory of one tensor on a device, with guard bytes before and after it: how it is filled before a launch, and
// how it is checked afterwards.
#pragma once

#include <kiln/device.h>
#include <kiln/run.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "run/element.h"

namespace kiln {

/// Bytes of host memory that are not initialised, 64-byte aligned.
class HostBytes {
  public:
    HostBytes() = default;
    explicit HostBytes(std::size_t bytes);
    std::byte* data() const { return data_.get(); }
    std::span<std::byte> span() const { return {data_.get(), bytes_}; }

  private:
    struct Free {
        void operator()(std::byte* bytes) const;
    };
    std::unique_ptr<std::byte[], Free> data_;
    std::size_t bytes_ = 0;
};

/// Not thread-safe. Move-only.
class GuardedTensor {
  public:
    /// The least size of each guard: a page. The one after the tensor goes on to the end of its buffer's last page, so
    /// that no byte is left which neither is compared nor faults (Driver::separate_buffers).
    static constexpr std::size_t kGuardBytes = 4096;
    static constexpr std::size_t kMostSkewBytes = 256;
    /// What a tensor without skew needs at most in addition to its own bytes.
    static constexpr std::size_t kMostAddedBytes = 3 * kGuardBytes;
    /// The size of one copy between host and device.
    static constexpr std::size_t kPieceBytes = std::size_t{32} << 20;

    /// Allocates and fills: inputs and inouts with their data, outputs and scratch with poison (zero if
    /// declared), the guards with a pattern. skew: elements before the tensor, which are guarded too; ignored
    /// for scratch, whose alignment is the kernel's choice. Throws DeviceError, VariantError, UsageError.
    GuardedTensor(const Device& device, const Tensor& tensor, Data data, std::uint64_t seed, int skew = 0);

    /// Fills it again as before the launch. Nothing may use it meanwhile.
    void refill() { refill(Poison::first); }
    /// The same with another poison, where it is poisoned.
    void refill(Poison poison);
    /// The same with other data.
    void refill(Data data) {
        data_ = data;
        refill();
    }

    const Tensor& tensor() const { return tensor_; }
    Data contents() const { return data_; }  ///< of inputs and inouts
    void* data() const { return static_cast<std::byte*>(buffer_.data()) + start_; }
    bool is_filled() const;    ///< with data that can be computed again, rather than with poison
    bool is_poisoned() const;  ///< before a launch: neither filled nor zeroed

    /// The data before the launch.
    HostBytes initial() const;
    /// Reads elements from `first` on.
    void read(std::int64_t first, std::span<std::byte> out) const;
    /// Overwrites elements from `first` on. Nothing may use them meanwhile.
    void write(std::int64_t first, std::span<const std::byte> elements);
    /// Calls use(first, bytes) for all elements, piece by piece, in order.
    void read_all(const std::function<void(std::int64_t first, std::span<const std::byte>)>& use) const;

    /// Guard bytes that were written: at most one before and one after the tensor, those nearest to it.
    std::vector<Overrun> overruns() const;
    /// Whether every bit is as before the launch. Only for tensors with data.
    bool is_unchanged() const;
    bool is_zero() const;
    /// A hash of the content.
    std::uint64_t fingerprint() const;
    /// How many elements equal the poisons. Zero where they are recognised by a single launch (kPoisonIsTelling), and where
    /// there is no poison.
    struct Poisoned {
        std::uint64_t first = 0, high = 0, low = 0;
    };
    Poisoned poisoned() const;

  private:
    std::int64_t piece_elements() const;
    std::size_t end() const { return start_ + tensor_.size_bytes(); }

    Tensor tensor_;
    Data data_;
    std::uint64_t seed_;
    std::size_t start_;  ///< of the tensor, in the buffer
    Buffer buffer_;
};

}  // namespace kiln
