// SPDX-License-Identifier: Apache-2.0
//
// shared_cache(): for tests of what kernels compute. Most want the same few variants and references, which take longer to
// compile than to run.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "base/file.h"

namespace kiln::test {

/// A cache directory: of all tests of a build directory, which ctest names, or else of this process.
inline std::filesystem::path shared_cache() {
    if (const char* const named = std::getenv("KILN_TEST_CACHE_DIR")) return named;
    static const TemporaryDirectory directory;
    return directory.path();
}

}  // namespace kiln::test
