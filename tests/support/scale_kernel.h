// SPDX-License-Identifier: Apache-2.0
//
// A small template for tests of the service on the host backend, with a check of what its kernels compute.
#pragma once

#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace kiln::test {

inline constexpr const char* kScale = R"(// scale: y = FACTOR * x
//@ kernel scale
//@ param  FACTOR int in 1..100 = 2 "the factor"
//@ block  32
//@ grid   ceil_div(n, 32)
#include "kiln/device.h"
extern "C" __global__ void scale(int n, const float* x, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
)";
using ScaleFn = void(int n, const float* x, float* y);

inline Variant scale_variant(const Service& service, int factor) {
    return service.parse(kScale, "scale.cu").variant({{"FACTOR", factor}});
}

/// An odd size, and an output that is poisoned first.
inline void expect_scales(Service& service, const Kernel<ScaleFn>& kernel, float factor) {
    const int n = 77;
    std::vector<float> x(n), y(n, -1.0f);
    for (int i = 0; i < n; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i) - 30.0f;
    auto x_buffer = service.device().allocate(n * sizeof(float));
    auto y_buffer = service.device().allocate(n * sizeof(float));
    x_buffer.copy_from(std::as_bytes(std::span(x)));
    y_buffer.fill(0x7fc00000);
    kernel(service.stream(), n, x_buffer.as<float>(), y_buffer.as<float>());
    service.stream().synchronize();
    y_buffer.copy_to(std::as_writable_bytes(std::span(y)));
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], factor * x[i]) << i;
}

/// Services of the host backend on a cache in a directory of their own, with their warnings.
struct ServiceFixture : testing::Test {
    TemporaryDirectory directory;
    std::vector<std::string> warnings;

    ServiceOptions options() {
        ServiceOptions result;
        result.backend = Backend::host;
        result.cache.directory = directory.path() / "cache";
        result.cache.remote = RemoteOptions{};
        result.on_warning = [this](std::string_view text) { warnings.emplace_back(text); };
        return result;
    }
    /// The one entry of the cache; empty when there is none.
    std::filesystem::path only_entry() {
        std::filesystem::path found;
        for (const auto& item : std::filesystem::recursive_directory_iterator(directory.path() / "cache")) {
            if (!item.is_regular_file() || item.path().extension() != ".kiln") continue;
            EXPECT_TRUE(found.empty()) << found << " and " << item.path();
            found = item.path();
        }
        return found;
    }
};

}  // namespace kiln::test
