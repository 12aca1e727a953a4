// SPDX-License-Identifier: Apache-2.0
//
// Defaults that are expressions over other parameters (`//@ param VEC int in 1, 2, 4, 8 = 16 / sizeof(T)`): in which
// order they are computed, and what they come to where some values are given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "template/front_matter.h"
#include "template/parameter.h"
#include "template/rule_set.h"

namespace kiln {

struct DefaultOrder {
    std::vector<std::size_t> order;  ///< all parameters, each behind those that its default uses
    std::vector<std::size_t> cycle;  ///< else parameters whose defaults use each other; no order then
};

/// Of parameters whose `default_uses` and `defaults` are set.
DefaultOrder default_order(const FrontMatter& front_matter);

/// The default of parameter number `index`, where others have the codes that are given and else their defaults.
/// nullopt, and `why`, where it can't be computed or is not among the parameter's values.
std::optional<std::int64_t> default_code(const FrontMatter& front_matter, std::size_t index,
                                         const FixedCodes& given, std::string& why);
/// The same; throws VariantError.
std::int64_t default_code(const FrontMatter& front_matter, std::size_t index, const FixedCodes& given);

/// The codes that are given, and defaults for the rest. Throws VariantError.
Codes with_defaults(const FrontMatter& front_matter, const FixedCodes& given);

}  // namespace kiln
