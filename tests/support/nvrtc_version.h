// SPDX-License-Identifier: Apache-2.0
//
// Which NVRTC a test compiles with, where releases differ in what they do or say.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <utility>

#include "compile/compiler.h"

namespace kiln::test {

/// {12, 4} of "NVRTC 12.4 ...". Throws BuildError where there is none.
inline std::pair<int, int> nvrtc_version() {
    std::pair version{0, 0};
    const std::string text = make_nvrtc_compiler()->description();
    EXPECT_EQ(std::sscanf(text.c_str(), "NVRTC %d.%d", &version.first, &version.second), 2) << text;
    return version;
}

}  // namespace kiln::test
