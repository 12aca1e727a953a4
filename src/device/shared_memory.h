// SPDX-License-Identifier: Apache-2.0
//
// The dynamic shared memory of the blocks that one OS thread runs: what lies behind its last byte, but for less
// than an alignment, and before its first one, but for a page, can't be touched, and what lies nearer is looked at after
// each block.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln {

/// What a block finds in shared memory that nobody has initialised, by its number: the highest numbers of half, float, double and
/// signed integers, or nearly so; the lowest; all bits set, which is a NaN; zero; and from there again. A maximum, a minimum or
/// a product drops some of them and shows the others.
void poison_shared(void* memory, std::size_t bytes, std::uint64_t number);

/// For one thread at a time.
class DynamicSharedMemory {
  public:
    static constexpr std::size_t kAlignment = 1024;
    /// On both sides, unreadable.
    static constexpr std::size_t kGuardBytes = 1024 * 1024;

    DynamicSharedMemory() = default;
    DynamicSharedMemory(const DynamicSharedMemory&) = delete;
    DynamicSharedMemory& operator=(const DynamicSharedMemory&) = delete;
    ~DynamicSharedMemory();

    /// Room for that many bytes, with `margin` of memory on both sides that may be touched and that nobody looks
    /// at; keeps nothing of what it held. Throws DeviceError.
    void resize(std::size_t bytes, std::size_t margin);
    std::byte* data() const { return data_; }
    /// Nobody wrote outside it. Always true with a margin.
    bool is_whole() const;
    /// As if nobody had.
    void repair();

  private:
    void release();

    std::byte* room_ = nullptr;  // what may be touched; the guards lie around it
    std::size_t room_bytes_ = 0;
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0, margin_ = 0;
    std::size_t before_ = 0, behind_ = 0;  // bytes with the pattern
};

}  // namespace kiln
