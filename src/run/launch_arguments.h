// SPDX-License-Identifier: Apache-2.0
//
// The arguments of a launch in the driver's form: one pointer per argument of the kernel.
#pragma once

#include <kiln/run.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "run/guarded_tensor.h"

namespace kiln {

class LaunchArguments {
  public:
    /// Reads the tensors' addresses now. Arguments that are neither a size nor a tensor (tensor maps, created
    /// at the launch) are omitted.
    LaunchArguments(const Variant& variant, const Problem& problem,
                    const std::vector<std::shared_ptr<GuardedTensor>>& tensors);
    LaunchArguments(const LaunchArguments&) = delete;
    LaunchArguments& operator=(const LaunchArguments&) = delete;

    void* const* pointers() const { return pointers_.data(); }

  private:
    std::vector<std::uint64_t>
        values_;  ///< each value in the first bytes of its word, in the argument's type
    std::vector<void*> pointers_;
};

/// Converts a value to an integer of that type in the first bytes of a word, truncated if it does not fit.
/// Throws UsageError for other types.
std::uint64_t packed_integer(const std::string& type, std::int64_t value);
/// The inverse.
std::int64_t unpacked_integer(const std::string& type, std::uint64_t word);

}  // namespace kiln
