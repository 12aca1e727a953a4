// SPDX-License-Identifier: Apache-2.0
//
// What is known before a launch of the pointers that it will pass, for the service, which checks them.
#pragma once

#include <kiln/template.h>

#include <cstddef>
#include <string>
#include <vector>

namespace kiln {

/// A pointer argument whose tensor is declared.
struct PointerArgument {
    std::size_t argument = 0;     ///< its number
    std::size_t align_bytes = 1;  ///< of its address: declared, or what TMA or its elements need
};

/// In the order of the kernel's arguments.
const std::vector<PointerArgument>& pointer_arguments(const Variant& variant);

/// The sizes that a launch passes, as Variant::problem() takes them.
Sizes launch_sizes(const Variant& variant, void* const* arguments);

}  // namespace kiln
