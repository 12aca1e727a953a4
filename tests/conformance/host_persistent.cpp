// SPDX-License-Identifier: Apache-2.0
//
// Grids that depend on the device's multiprocessors: of a device, and of an architecture alone, which has
// none.
#include <gmock/gmock.h>
#include <kiln/kiln.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "scale_kernel.h"

namespace kiln {
namespace {

constexpr const char* kPersistent = R"(// persistent: y[i] = the number of blocks
//@ kernel persistent
//@ block  32
//@ grid   min(ceil_div(n, 32), 2 * max(device.multiprocessors, 1))
#include "kiln/device.h"
extern "C" __global__ void persistent(int n, int* y) {
    const int step = int(gridDim.x * blockDim.x);
    for (int i = int(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += step) y[i] = int(gridDim.x);
}
)";

using HostPersistent = test::ServiceFixture;

TEST_F(HostPersistent, HasBlocksForEachMultiprocessor) {
    Service service(options());
    const auto kernel = service.build<void(int, int*)>(service.parse(kPersistent, "persistent.cu").variant());
    const int blocks = 2 * static_cast<int>(service.target().limits.multiprocessors);
    ASSERT_GE(blocks, 2);
    for (const int n : {1, 33, 100'000}) {
        Buffer y = service.device().allocate(static_cast<std::size_t>(n) * 4);
        kernel(service.stream(), n, y.as<int>());
        std::vector<int> values(static_cast<std::size_t>(n));
        y.copy_to(std::as_writable_bytes(std::span(values)));
        EXPECT_THAT(values, testing::Each(std::min(blocks, (n + 31) / 32)));
    }
}

TEST_F(HostPersistent, AnArchitectureAloneHasNone) {
    for (const auto& [backend, arch] :
         {std::pair(Backend::cuda, "sm_90a"), std::pair(Backend::hip, "gfx90a")}) {
        ServiceOptions without_device = options();
        without_device.backend = backend;
        without_device.arch = arch;
        without_device.compile_only = true;
        const Service service(without_device);
        const Variant variant = service.parse(kPersistent, "persistent.cu").variant();
        EXPECT_EQ(service.target().limits.multiprocessors, 0);
        int n = 100'000;
        int* y = nullptr;
        void* arguments[] = {&n, &y};
        EXPECT_EQ(variant.grid(arguments).x, 2u) << arch;
    }
}

}  // namespace
}  // namespace kiln
