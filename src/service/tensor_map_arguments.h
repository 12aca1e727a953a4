// SPDX-License-Identifier: Apache-2.0
//
// TensorMapArguments: the arguments of a kernel that its callers do not pass, made at each launch from those
// that they do.
#pragma once

#include <kiln/template.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/driver.h"

namespace kiln {

/// Thread-safe. Launches with the same arguments as the last one share its maps: a comparison of the values
/// instead of evaluating the template's expressions and asking the driver.
class TensorMapArguments {
  public:
    /// argument_bytes: of each argument that callers pass; empty where that is not known, and then nothing is
    /// shared.
    TensorMapArguments(const Variant& variant, std::vector<std::size_t> argument_bytes);

    std::size_t count() const { return count_; }

    struct alignas(kTensorMapAlignment) Map {
        std::byte bytes[kTensorMapBytes];
    };
    using Maps = std::shared_ptr<const std::vector<Map>>;
    /// In the kernel's order. Throws VariantError, UsageError for a tensor that TMA can't move, DeviceError.
    Maps for_launch(const Variant& variant, Driver& driver, void* const* arguments) const;

  private:
    struct Made {
        std::vector<std::byte> values;  ///< of the arguments, one after the other
        std::vector<Map> maps;
    };

    bool is_for(const Made& made, void* const* arguments) const;

    const std::size_t count_;
    const std::vector<std::size_t> argument_bytes_;
    mutable std::mutex mutex_;
    mutable std::shared_ptr<const Made> last_;
};

}  // namespace kiln
