// SPDX-License-Identifier: Apache-2.0
//
// Tensor maps by the CUDA driver: boxes arrive where the template says, with zeros outside the tensor, for
// each type and swizzle; what the driver would reject is rejected before it is asked.
#include <gmock/gmock.h>
#include <kiln/error.h>
#include <kiln/kiln.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "box_kernel.h"
#include "device/driver.h"
#include "require.h"
#include "scale_kernel.h"

namespace kiln {
namespace {

using test::BoxesFn;
using test::expect_boxes;
using test::kBoxes;
using testing::AllOf;
using testing::HasSubstr;

class TensorMapOnGpu : public test::ServiceFixture {
  protected:
    void SetUp() override {
        std::string reason;
        const auto devices = Device::list(Backend::cuda, &reason);
        KILN_REQUIRE_OR_SKIP("gpu", !devices.empty(), reason);
        if (devices[0].arch != "sm_90a") GTEST_SKIP() << "the kernel is for sm_90a";
        ServiceOptions on_gpu = options();
        on_gpu.backend = Backend::cuda;
        service_.emplace(on_gpu);
    }

    std::optional<Service> service_;
};

TEST_F(TensorMapOnGpu, BoxesComeFromTheLaunchsTensor) {
    const auto boxes = service_->parse(kBoxes, "boxes.cu");
    for (const int width : {4, 8, 16, 32, 64}) {
        const auto kernel = service_->build<BoxesFn>(boxes.variant({{"WIDTH", width}}));
        expect_boxes(*service_, kernel, 37, 44, width);
        expect_boxes(*service_, kernel, 37, 48, width);
        expect_boxes(*service_, kernel, 1, 4, width);
        expect_boxes(*service_, kernel, 1000, 1024, width);
        expect_boxes(*service_, kernel, 37, 44, width, 4);
        expect_boxes(*service_, kernel, 37, 44, width);
    }
    expect_boxes(*service_, service_->build<BoxesFn>(boxes.variant({{"WIDTH", 32}, {"SWIZZLE", 128}})), 37,
                 44, 32);
}

TEST_F(TensorMapOnGpu, WhatTmaCanNotMoveIsRejectedAndTheDeviceGoesOn) {
    const auto kernel = service_->build<BoxesFn>(service_->parse(kBoxes, "boxes.cu").variant());
    EXPECT_THROW(expect_boxes(*service_, kernel, 37, 45, 32), UsageError);
    EXPECT_THROW(expect_boxes(*service_, kernel, 37, 44, 32, 1), UsageError);
    expect_boxes(*service_, kernel, 37, 44, 32);
}

// Kiln's rules are the driver's: what passes them, at their limits too, the driver takes.
TEST_F(TensorMapOnGpu, TheDriverTakesWhatTheRulesAllow) {
    Driver& driver = *service_->device().driver();
    alignas(kTensorMapAlignment) std::byte map[kTensorMapBytes];
    TensorMapLayout layout;
    layout.name = "map";
    layout.tensor = "a";
    const Buffer buffer = service_->device().allocate(1024);
    layout.base = buffer.data();
    const std::pair<const char*, std::size_t> types[] = {{"half", 2},
                                                         {"bfloat16", 2},
                                                         {"float", 4},
                                                         {"double", 8},
                                                         {"signed char", 1},
                                                         {"unsigned char", 1},
                                                         {"bool", 1},
                                                         {"short", 2},
                                                         {"unsigned short", 2},
                                                         {"int", 4},
                                                         {"unsigned int", 4},
                                                         {"long long", 8},
                                                         {"unsigned long long", 8}};
    for (const auto& [type, bytes] : types) {
        for (int rank = 1; rank <= kMostTensorMapDimensions; ++rank) {
            layout.type = type;
            layout.element_bytes = bytes;
            layout.rank = rank;
            layout.swizzle_bytes = 32 << rank % 3;
            layout.extents = {std::uint64_t{1} << 20, 3, 5, 7, 2};
            layout.box = {16 / static_cast<std::uint32_t>(bytes), 3, 5, 1, 2};
            layout.stride_bytes[0] = bytes;
            for (int i = 1; i < rank; ++i)
                layout.stride_bytes[i] = layout.stride_bytes[i - 1] * layout.extents[i - 1];
            std::memset(map, 0, sizeof(map));
            ASSERT_NO_THROW(driver.encode_tensor_map(layout, map)) << type << ", rank " << rank;
            EXPECT_NE(std::count(std::begin(map), std::end(map), std::byte{0}), std::ptrdiff_t{sizeof(map)});
        }
    }
    layout.rank = 2;
    layout.type = "float";
    layout.element_bytes = 4;
    layout.swizzle_bytes = 0;
    layout.extents = {4, std::uint64_t{1} << 32};
    layout.stride_bytes = {4, (std::uint64_t{1} << 40) - 16};
    layout.box = {4, 256};
    EXPECT_NO_THROW(driver.encode_tensor_map(layout, map));
    layout.type = "struct of 3";
    layout.element_bytes = 3;
    layout.box = {16, 1};
    EXPECT_THROW(driver.encode_tensor_map(layout, map), UsageError);
}

}  // namespace
}  // namespace kiln
