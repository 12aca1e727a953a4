// SPDX-License-Identifier: Apache-2.0
//
// Tensor maps at launch, on the host: made from the template's line and the launch's arguments, made again
// when those change, and rejected as TMA would reject them.
#include <gmock/gmock.h>
#include <kiln/error.h>

#include <string>
#include <thread>
#include <vector>

#include "box_kernel.h"
#include "rejected.h"
#include "scale_kernel.h"

namespace kiln {
namespace {

using test::BoxesFn;
using test::expect_boxes;
using test::kBoxes;
using testing::AllOf;
using testing::HasSubstr;
using HostTensorMap = test::ServiceFixture;

TEST_F(HostTensorMap, BoxesComeFromTheLaunchsTensor) {
    Service service(options());
    for (const int width : {4, 32}) {
        const auto kernel =
            service.build<BoxesFn>(service.parse(kBoxes, "boxes.cu").variant({{"WIDTH", width}}));
        // Other extents and other buffers in a row, and back again: each needs a map of its own.
        expect_boxes(service, kernel, 37, 44, width);
        expect_boxes(service, kernel, 37, 48, width);
        expect_boxes(service, kernel, 1, 4, width);
        expect_boxes(service, kernel, 64, 64, width);
        expect_boxes(service, kernel, 37, 44, width, 4);
        expect_boxes(service, kernel, 37, 44, width);
    }
}

TEST_F(HostTensorMap, ASwizzleMovesPiecesOf16Bytes) {
    Service service(options());
    const auto boxes = service.parse(kBoxes, "boxes.cu");
    expect_boxes(service, service.build<BoxesFn>(boxes.variant({{"WIDTH", 32}, {"SWIZZLE", 128}})), 37, 44,
                 32);
}

TEST_F(HostTensorMap, WhatTmaCanNotMoveIsRejectedWithTheNumbers) {
    Service service(options());
    const auto boxes = service.parse(kBoxes, "boxes.cu");
    const auto kernel = service.build<BoxesFn>(boxes.variant());
    EXPECT_THAT(
        test::rejected<UsageError>([&] { expect_boxes(service, kernel, 37, 45, 32); }),
        AllOf(HasSubstr("x_map of boxes"), HasSubstr("tensor x: a row has 45 elements of float, 180 bytes"),
              HasSubstr("must be a multiple of 4")));
    EXPECT_THAT(test::rejected<UsageError>([&] { expect_boxes(service, kernel, 37, 44, 32, 1); }),
                AllOf(HasSubstr("the argument x is at 0x"), HasSubstr("multiple of 16 bytes")));
    expect_boxes(service, kernel, 37, 44, 32);  // none the worse for it
}

// The last argument of the kernel is the map, and callers neither pass nor see it.
TEST_F(HostTensorMap, CallersDoNotPassIt) {
    Service service(options());
    const auto variant = service.parse(kBoxes, "boxes.cu").variant();
    EXPECT_EQ(variant.arguments().size(), 4u);
    EXPECT_THROW(service.build<void(int, int, const float*, float*, const void*)>(variant), UsageError);
}

TEST_F(HostTensorMap, LaunchesOfManyThreadsHaveTheirOwn) {
    Service service(options());
    const auto kernel = service.build<BoxesFn>(service.parse(kBoxes, "boxes.cu").variant());
    std::vector<std::thread> threads;
    for (int t = 1; t <= 4; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 20; ++i) expect_boxes(service, kernel, 8 * t, 16 * t, 32);
        });
    }
    for (auto& thread : threads) thread.join();
}

TEST_F(HostTensorMap, HipRejectsTheTemplate) {
    std::string text = kBoxes;
    text.erase(text.find("//@ backend"), text.find("//@ param") - text.find("//@ backend"));
    auto for_hip = options();
    for_hip.backend = Backend::hip;
    for_hip.arch = "gfx90a";
    for_hip.compile_only = true;
    Service service(for_hip);
    const auto variant = service.parse(text, "boxes.cu").variant();
    EXPECT_THAT(test::rejected<UsageError>([&] { service.compile(variant); }),
                AllOf(HasSubstr("boxes has tensor maps"), HasSubstr("//@ backend cuda, host")));
}

}  // namespace
}  // namespace kiln
