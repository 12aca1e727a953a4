// SPDX-License-Identifier: Apache-2.0
//
// shared_cache(), shared_host_service(): for tests of what kernels compute. Most want the same few variants and references, which take longer to
// compile than to run.
#pragma once

#include <kiln/service.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/file.h"

namespace kiln::test {

/// A cache directory: of all tests of a build directory, which ctest names, or else of this process.
inline std::filesystem::path shared_cache() {
    if (const char* const named = std::getenv("KILN_TEST_CACHE_DIR")) return named;
    static const TemporaryDirectory directory;
    return directory.path();
}

/// A service for the host with that cache. Another order of threads is no other binary.
inline std::unique_ptr<Service> shared_host_service() {
    ServiceOptions options;
    options.backend = Backend::host;
    options.cache.directory = shared_cache();
    return std::make_unique<Service>(options);
}

}  // namespace kiln::test
