// SPDX-License-Identifier: Apache-2.0
//
// Stacks for fibers, mapped in slabs as they are needed, each with a guard page below it where the
// system can afford one. Pages that a stack never touches cost no memory.
#pragma once

#include <cstddef>
#include <vector>

namespace kiln {

struct FiberStack {
    std::byte* bottom = nullptr;
    std::size_t bytes = 0;

    std::byte* top() const { return bottom + bytes; }
};

/// Owns stacks; they live as long as it does. One thread at a time.
class FiberStacks {
  public:
    FiberStacks() = default;
    FiberStacks(const FiberStacks&) = delete;
    FiberStacks& operator=(const FiberStacks&) = delete;
    ~FiberStacks();

    /// A stack that nobody else has. Throws DeviceError when memory can't be mapped.
    FiberStack take();

  private:
    std::vector<std::byte*> slabs_;
    std::size_t taken_ = 0;
};

}  // namespace kiln
