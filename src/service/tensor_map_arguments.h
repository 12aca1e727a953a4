// SPDX-License-Identifier: Apache-2.0
//
// TensorMapArguments: the arguments of a kernel that its callers do not pass, made at each launch from those
// that they do.
#pragma once

#include <kiln/template.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/driver.h"

namespace kiln {

/// Thread-safe. Each thread remembers the maps of its latest launches, of all kernels: one with arguments that it
/// has seen pays for a comparison of their values instead of evaluating the template's expressions and asking the
/// driver, and takes no lock.
class TensorMapArguments {
  public:
    /// argument_bytes: of each argument that callers pass; empty where that is not known, and then nothing is
    /// remembered.
    TensorMapArguments(const Variant& variant, std::vector<std::size_t> argument_bytes);

    std::size_t count() const { return count_; }

    struct alignas(kTensorMapAlignment) Map {
        std::byte bytes[kTensorMapBytes];
    };
    /// count() of them, in the kernel's order, valid until this thread's next call. Throws VariantError,
    /// UsageError for a tensor that TMA can't move, DeviceError.
    const Map* for_launch(const Variant& variant, Driver& driver, void* const* arguments) const;

  private:
    /// Arguments as they are compared: each begins a word, and what it leaves of its last one is zero.
    using Words = std::vector<std::uint64_t>;

    void pack(void* const* arguments, Words& words) const;

    const std::uint64_t id_;  ///< of this object; none other ever has it
    const std::size_t count_;
    const std::vector<std::size_t> argument_bytes_;
};

}  // namespace kiln
