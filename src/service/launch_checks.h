// SPDX-License-Identifier: Apache-2.0
//
// LaunchChecks: what is wrong with a launch's sizes, pointers and stream, told before it. Limits of sizes, null pointers
// and alignment are looked at always, by a comparison or two of each; what only the driver knows where validation is on.
#pragma once

#include <kiln/device.h>
#include <kiln/template.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/driver.h"

namespace kiln {

class SizeLimits;

/// Immutable. Of the sizes and the pointers to tensors that the template declares.
class LaunchChecks {
  public:
    explicit LaunchChecks(const Variant& variant);

    /// arguments: as for Variant::grid. Throws VariantError for a size that is negative or that its `multiple` or `at_most` does not allow;
    /// UsageError, naming the argument, for an address that is null or not aligned and whose tensor has elements.
    void check(const Variant& variant, void* const* arguments) const {
        if (sizes_ != nullptr) check_sizes(variant, arguments);
        for (const Pointer& pointer : pointers_) {
            const auto address = *static_cast<const std::uintptr_t*>(arguments[pointer.argument]);
            if (address == 0 || (address & pointer.mask) != 0) [[unlikely]]
                refuse_unless_empty(variant, arguments, pointer);
        }
    }
    /// Throws UsageError for a pointer to memory that kernels of this device can't use, or to less of it than the tensor
    /// has; for a stream of another device or context. As far as the driver can tell.
    void validate(const Variant& variant, const Driver& driver, StreamRef stream,
                  void* const* arguments) const;

  private:
    struct Pointer {
        std::size_t argument = 0;
        std::uintptr_t mask = 0;  ///< bits of the address that must be zero
    };
    void check_sizes(const Variant& variant, void* const* arguments) const;
    static void refuse_unless_empty(const Variant& variant, void* const* arguments, const Pointer& pointer);

    std::shared_ptr<const SizeLimits> sizes_;  ///< null: there are none
    std::vector<Pointer> pointers_;
};

}  // namespace kiln
