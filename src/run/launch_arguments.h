// SPDX-License-Identifier: Apache-2.0
//
// The arguments of a launch as the driver wants them: one pointer per argument of the kernel.
#pragma once

#include <kiln/run.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "run/guarded_tensor.h"

namespace kiln {

class LaunchArguments {
  public:
    /// The tensors' addresses are taken now. What is neither a size nor a tensor (a tensor map, made at the
    /// launch) is left out.
    LaunchArguments(const Variant& variant, const Problem& problem,
                    const std::vector<std::shared_ptr<GuardedTensor>>& tensors);
    LaunchArguments(const LaunchArguments&) = delete;
    LaunchArguments& operator=(const LaunchArguments&) = delete;

    void* const* pointers() const { return pointers_.data(); }

  private:
    std::vector<std::uint64_t> values_;  ///< each in the first bytes, in its own type
    std::vector<void*> pointers_;
};

/// The value in the first bytes of a word, as an integer of that type, cut off where it does not fit. Throws
/// UsageError for a type that is no integer's.
std::uint64_t packed_integer(const std::string& type, std::int64_t value);
/// The inverse.
std::int64_t unpacked_integer(const std::string& type, std::uint64_t word);

}  // namespace kiln
