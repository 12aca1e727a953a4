// SPDX-License-Identifier: Apache-2.0
//
// Skips that can be turned into failures: KILN_REQUIRE=nvrtc,hiprtc,host,gpu names what this run must
// not go without.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace kiln::test {

inline bool required(const std::string& what) {
    const char* list = std::getenv("KILN_REQUIRE");
    return list != nullptr && ("," + std::string(list) + ",").find("," + what + ",") != std::string::npos;
}

}  // namespace kiln::test

/// Goes on when `condition` holds; else skips the test with the reason, or fails it when KILN_REQUIRE
/// names `what`.
#define KILN_REQUIRE_OR_SKIP(what, condition, reason)                                                     \
    if (!(condition)) {                                                                                   \
        if (::kiln::test::required(what)) FAIL() << what << " is required by KILN_REQUIRE: " << (reason); \
        GTEST_SKIP() << what << ": " << (reason);                                                         \
    }                                                                                                     \
    static_assert(true)
