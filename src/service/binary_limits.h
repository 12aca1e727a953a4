// SPDX-License-Identifier: Apache-2.0
//
// Whether the kernels of a binary can be launched as their template's lines say, as far as the binary tells.
#pragma once

#include <kiln/build.h>
#include <kiln/template.h>

#include <string>

namespace kiln {

/// Throws BuildError where a kernel's __launch_bounds__ allow fewer threads than the template's block has, or where it has
/// more static shared memory than a block of the target may have. Else a warning where it has more of that than the
/// template's `shared static` line says, and an empty text where it has not.
std::string check_binary_limits(const Variant& variant, const Binary& binary, const Target& target);

}  // namespace kiln
