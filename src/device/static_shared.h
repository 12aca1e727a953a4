// SPDX-License-Identifier: Apache-2.0
//
// The static shared memory of a kernel's shared object: thread-local variables, so that each OS thread has those of the block
// that it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/host_object.h"

namespace kiln {

/// Const access from any thread once it is loaded.
class StaticShared {
  public:
    explicit StaticShared(std::span<const std::byte> object) : ranges_(shared_ranges(object)) {}

    /// handle: of the object, from the loader.
    void loaded(void* handle);
    /// This OS thread's: poison_shared() of each variable. Does nothing where the loader does not tell where it lies.
    void poison(std::uint64_t number) const;

  private:
    std::vector<ThreadLocalRange> ranges_;
    std::size_t module_ = 0;  ///< the loader's number of the object; 0: it is not known
};

}  // namespace kiln
