// SPDX-License-Identifier: Apache-2.0
//
// Work in a child process: its time limit counts from the start of the first kernel, and errors come back as they are.
#include "run/isolated.h"

#include <gmock/gmock.h>
#include <kiln/error.h>

#include <chrono>
#include <string>
#include <thread>

#include "scale_kernel.h"

namespace kiln::test {
namespace {

constexpr std::chrono::milliseconds kLimit{200};

/// Work that a loaded machine needs much time for.
void rest() { std::this_thread::sleep_for(3 * kLimit); }

struct Isolated : ServiceFixture {
    ServiceOptions limited() {
        ServiceOptions result = options();
        result.isolate_host = true;
        result.host_time_limit = kLimit;
        return result;
    }
};

TEST_F(Isolated, WhatComesBeforeTheFirstKernelHasMoreTimeThanTheLimit) {
    Service service(limited());
    EXPECT_EQ(in_child(service, "scale", {},
                       [](const ReportPhase&) {
                           rest();
                           return std::string("done");
                       }),
              "done");
}

TEST_F(Isolated, TheLimitCountsFromTheFirstKernel) {
    Service service(limited());
    const auto kernel = service.build<ScaleFn>(scale_variant(service, 3));
    try {
        in_child(service, "scale", {}, [&](const ReportPhase&) {
            expect_scales(service, kernel, 3);
            rest();
            return std::string("done");
        });
        FAIL() << "it had 200 ms, and took 600";
    } catch (const DeviceError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("longer on the host than the time limit of 0.2 s"));
    }
}

TEST_F(Isolated, ErrorsKeepTheirClass) {
    Service service(limited());
    try {
        in_child(service, "scale", {}, [](const ReportPhase&) -> std::string {
            throw NotReadyError("it is not built", {{"m", 3}, {"n", 70}});
        });
        FAIL();
    } catch (const NotReadyError& error) {
        EXPECT_STREQ(error.what(), "it is not built");
        EXPECT_EQ(error.sizes(), (Sizes{{"m", 3}, {"n", 70}}));
    }
    EXPECT_THROW(in_child(service, "scale", {},
                          [](const ReportPhase&) -> std::string { throw VariantError("it is not legal"); }),
                 VariantError);
}

TEST_F(Isolated, AChildStartsNoOther) {
    Service service(limited());
    EXPECT_TRUE(isolates(service));
    EXPECT_EQ(in_child(service, "scale", {},
                       [&](const ReportPhase&) { return std::string(isolates(service) ? "yes" : "no"); }),
              "no");
    EXPECT_TRUE(isolates(service));
}

}  // namespace
}  // namespace kiln::test
