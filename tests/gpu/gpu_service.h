// SPDX-License-Identifier: Apache-2.0
//
// A service on the CUDA device, with a cache of its own, for tests that use the public API.
#pragma once

#include <kiln/kiln.h>

#include <optional>
#include <string>

#include "require.h"
#include "scale_kernel.h"

namespace kiln::test {

/// SetUp skips the test, and makes no service, where there is no device.
class GpuService : public ServiceFixture {
  protected:
    void SetUp() override {
        std::string reason;
        const bool found = !Device::list(Backend::cuda, &reason).empty();
        KILN_REQUIRE_OR_SKIP("gpu", found, reason);
        ServiceOptions on_gpu = options();
        on_gpu.backend = Backend::cuda;
        service_.emplace(on_gpu);
    }

    std::optional<Service> service_;
};

}  // namespace kiln::test
