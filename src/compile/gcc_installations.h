// SPDX-License-Identifier: Apache-2.0
//
// Where Clang looks for installations of GCC. It takes the C++ library's headers, crtbegin.o and libgcc from the newest
// one that it finds, so that another one that is installed makes it another compiler.
#pragma once

#include <filesystem>
#include <vector>

#include "compile/driver_answer.h"

namespace kiln {

/// Directories of which at least one changes when an installation comes, goes or becomes complete; some may not exist.
std::vector<std::filesystem::path> places_of_gcc(const DriverAnswer& clang);

}  // namespace kiln
