// SPDX-License-Identifier: Apache-2.0
//
// The extents of a variant's tensors: how they follow from sizes, so that a caller can find sizes from the shapes of its
// arrays, and what they are, so that it can compare. Language bindings need both.
#pragma once

#include <kiln/template.h>
#include <kiln/types.h>
#include <kiln/version.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// How an extent follows from the integer arguments, where the variant's values are put in: `[TRANS ? n : m, 2 * heads * group,
/// ceil_div(n, 64)]` has the sizes n or m, a product, and one that is none.
struct ExtentRule {
    bool is_product = false;  ///< of `factor` and `sizes`; else it has to be computed: tensor_extents()
    std::int64_t factor = 1;  ///< 2; without sizes the extent itself
    std::vector<std::string>
        sizes;  ///< of the product, in the order in which they are written: "heads", "group"

    bool operator==(const ExtentRule&) const = default;
};

/// Of a tensor that is declared and that the variant has.
struct TensorExtentRules {
    std::string name;                 ///< of the argument
    std::vector<ExtentRule> extents;  ///< outermost first
};

/// The extents of a tensor for given sizes.
struct TensorExtents {
    std::string name;                   ///< of the argument
    std::vector<std::int64_t> extents;  ///< outermost first
};

/// In the order of the kernel's arguments; of a template that is not runnable, those that are declared.
std::vector<TensorExtentRules> tensor_extent_rules(const Variant& variant);

/// The same for these sizes, as in Variant::problem(); those that are not given have their defaults. The template need not
/// be runnable. Throws VariantError: an unknown size, one that the variant does not take, an extent that is negative, can't be computed or overflows.
std::vector<TensorExtents> tensor_extents(const Variant& variant, const Sizes& sizes);

}  // namespace KILN_ABI
}  // namespace kiln
