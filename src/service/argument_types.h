// SPDX-License-Identifier: Apache-2.0
//
// Types that a caller passes, compared with those that a kernel's declaration writes.
#pragma once

#include <kiln/kernel.h>

#include <cstddef>
#include <string>

namespace kiln {

/// declaration: normalised, "const half*".
bool fits(const ArgumentType& given, const std::string& declaration);
/// 0 for a type whose size only the compiler knows.
std::size_t declared_bytes(const std::string& declaration);
/// "const half*", "struct of 12 bytes"
std::string text_of(const ArgumentType& type);

}  // namespace kiln
