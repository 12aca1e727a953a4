// SPDX-License-Identifier: Apache-2.0
//
// Tests of what CUDA and HIP share, for both.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "device/cuda_vendor.h"
#include "device/hip_vendor.h"

namespace kiln::test {

struct VendorName {
    template <class Vendor>
    static std::string GetName(int) {
        return Vendor::kName;
    }
};
using Vendors = ::testing::Types<cuda::Vendor, hip::Vendor>;

}  // namespace kiln::test
