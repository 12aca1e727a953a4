// SPDX-License-Identifier: Apache-2.0
//
// The key's text byte for byte: a change here empties every cache in the field, so it is made on purpose.
#include <gtest/gtest.h>

#include "cache/build_key.h"

namespace kiln {
namespace {

TEST(KeyGolden, TextAndDigest) {
    const auto key =
        make_build_key({Backend::cuda, "sm_90a", {}}, "nvrtc build 0123", {"--std=c++17", "-lineinfo"},
                       {"scale.cu", "scale", "int x;\n", {{"kiln/device.h", "// prelude\n"}}});
    EXPECT_EQ(key.text,
              "kiln-key 1\n"
              "backend 4\ncuda\n"
              "arch 6\nsm_90a\n"
              "compiler 16\nnvrtc build 0123\n"
              "option 11\n--std=c++17\n"
              "option 9\n-lineinfo\n"
              "file 8\nscale.cu\n"
              "entry 5\nscale\n"
              "header 78\nkiln/device.h e9ec9167c3e82e03f2270271d2c28950c5c5a04840e3078c289ac0bc2e20347d\n"
              "source 7\nint x;\n\n");
    EXPECT_EQ(key.digest, "3be9368f64ff899671bfbed0b8d3f00b6130da55d266c7e008643235cc809856");
}

}  // namespace
}  // namespace kiln
