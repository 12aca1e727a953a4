// SPDX-License-Identifier: Apache-2.0
//
// The completion script of bash, which CMake embeds in the program.
#pragma once

#include <string_view>

namespace kiln::cli {

extern const std::string_view kBashCompletion;

}  // namespace kiln::cli
