// SPDX-License-Identifier: Apache-2.0
//
// The memory of one tensor on a device, with guard bytes before and behind it: how it is filled before a launch, and
// what can be told of it afterwards.
#pragma once

#include <kiln/device.h>
#include <kiln/run.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

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
    /// On either side: a page. What a tensor takes besides its own bytes and the skew is twice that.
    static constexpr std::size_t kGuardBytes = 4096;
    static constexpr std::size_t kMostSkewBytes = 256;
    /// What goes between host and device at a time.
    static constexpr std::size_t kPieceBytes = std::size_t{32} << 20;

    /// Allocates, and fills: inputs and inouts with their data, outputs and scratch with poison (zero where
    /// that is declared), the guards with a pattern. skew: elements in front of it, which are guarded too; none
    /// of scratch, whose address is the kernel's own affair. Throws DeviceError, VariantError, UsageError.
    GuardedTensor(const Device& device, const Tensor& tensor, Data data, std::uint64_t seed, int skew = 0);

    /// Fills it again, as it was before the launch. Nothing may use it meanwhile.
    void refill();
    /// The same with other data.
    void refill(Data data) {
        data_ = data;
        refill();
    }

    const Tensor& tensor() const { return tensor_; }
    Data contents() const { return data_; }  ///< of inputs and inouts
    void* data() const { return static_cast<std::byte*>(buffer_.data()) + start_; }
    bool is_filled() const;  ///< with data that can be made again, rather than with poison

    /// The data as it was before the launch.
    HostBytes initial() const;
    /// Elements `first` and following, as they are.
    void read(std::int64_t first, std::span<std::byte> out) const;
    /// Overwrites elements `first` and following. Nothing may use them meanwhile.
    void write(std::int64_t first, std::span<const std::byte> elements);
    /// Calls use(first, bytes) with all elements, a piece at a time, in their order.
    void read_all(const std::function<void(std::int64_t first, std::span<const std::byte>)>& use) const;

    /// Guard bytes that were written to: at most one before and one behind, the nearest to the tensor.
    std::vector<Overrun> overruns() const;
    /// Every bit is as it was before the launch. Of one with data.
    bool is_unchanged() const;
    bool is_zero() const;
    /// A hash of the content.
    std::uint64_t fingerprint() const;

  private:
    std::int64_t piece_elements() const;

    Tensor tensor_;
    Data data_;
    std::uint64_t seed_;
    std::size_t start_;  ///< of the tensor, in the buffer
    Buffer buffer_;
};

}  // namespace kiln
