// SPDX-License-Identifier: Apache-2.0
//
// SizeLimits: whether the sizes of a launch are not negative and what the `multiple` and `at_most` of their lines ask for. What does not
// depend on other arguments is computed once, so that a launch compares numbers.
#pragma once

#include <kiln/template.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "template/arithmetic.h"
#include "template/launch_program.h"

namespace kiln {

/// Immutable. Of the sizes of a variant.
class SizeLimits {
  public:
    explicit SizeLimits(const Variant& variant);

    /// This variant has no sizes.
    bool empty() const { return limits_.empty(); }

    /// arguments: as for Variant::grid. Throws VariantError, naming the size, what it is and what it has to be.
    void check(const Variant& variant, void* const* arguments) const {
        for (const Limit& limit : limits_) {
            Failure::Reason reason{};
            const std::int64_t value =
                arithmetic::read_argument(arguments[limit.argument], limit.format, reason);
            if (value < 0 || value > limit.most || !is_multiple(value, limit.multiple)) [[unlikely]]
                return refuse(variant, arguments);
        }
        if (!computed_.empty()) [[unlikely]]
            check_computed(variant, arguments);
    }

  private:
    struct Limit {
        std::size_t argument = 0;
        ArgumentFormat format = ArgumentFormat::i32;
        std::int64_t multiple = 1;
        std::int64_t most = std::numeric_limits<std::int64_t>::max();
    };
    /// One that depends on arguments before it.
    struct Computed {
        Limit of;
        std::optional<LaunchProgram> multiple, most;
    };

    static bool is_multiple(std::int64_t value, std::int64_t of) {
        if (of == 1) return true;
        std::int64_t remainder = 0;
        Failure::Reason never{};
        arithmetic::divide(value, of, remainder, never);
        return remainder == 0;
    }
    void check_computed(const Variant& variant, void* const* arguments) const;
    static void refuse(const Variant& variant, void* const* arguments);

    std::vector<Limit> limits_;
    std::vector<Computed> computed_;
};

/// Throws VariantError for a size that is negative or that its line does not allow. sizes: all of them.
void check_sizes(const Variant& variant, const Sizes& sizes);

}  // namespace kiln
