// SPDX-License-Identifier: Apache-2.0
//
// Work in a child process: its time limit counts from the start of the first kernel, errors come back as they are, and the
// child starts whatever other threads do.
#include "run/isolated.h"

#include <gmock/gmock.h>
#include <kiln/error.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "base/dynamic_library.h"
#include "base/file.h"
#include "host_kernel.h"
#include "scale_kernel.h"

namespace kiln::test {
namespace {

constexpr std::chrono::milliseconds kLimit{200};

/// Work that a loaded machine needs much time for.
void rest() { std::this_thread::sleep_for(3 * kLimit); }

/// A library whose constructor holds the lock of atexit() for half a second, but for moments. It makes the file
/// `begun` when it starts with that.
std::string slow_to_open(const std::string& begun) {
    return R"(
#include <fcntl.h>
#include <unistd.h>
#include <chrono>
#include "kiln/device.h"
extern "C" int __cxa_atexit(void (*)(void*), void*, void*) noexcept;
extern "C" void __cxa_finalize(void*);
namespace {
struct Slow {
    Slow() {
        static char all, none;
        for (int i = 0; i < 20000; ++i) __cxa_atexit([](void*) {}, nullptr, &all);
        close(open(")" +
           begun + R"(", O_CREAT | O_WRONLY, 0600));
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
        while (std::chrono::steady_clock::now() < end) __cxa_finalize(&none);  // looks through the list
        __cxa_finalize(&all);
    }
} slow;
}
extern "C" __global__ void kernel() {}
)";
}

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

TEST_F(Isolated, TheChildNeedsNoLockThatAThreadHoldsWhichOpensALibrary) {
    const std::filesystem::path begun = directory.path() / "begun", library = directory.path() / "slow.so";
    const Binary binary = compile_for_host(slow_to_open(begun.string()));
    write_text(library, {reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size()});
    ServiceOptions given = limited();
    std::stop_source stop;
    given.stop = stop.get_token();
    Service service(given);

    const std::jthread opener([&] { DynamicLibrary::open({library.string()}).keep_forever(); });
    while (!std::filesystem::exists(begun)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    // A child that hangs would do so for ten minutes.
    const std::jthread patience([&](const std::stop_token& over) {
        std::mutex mutex;
        std::unique_lock lock(mutex);
        if (!std::condition_variable_any().wait_for(lock, over, std::chrono::seconds(20),
                                                    [&] { return over.stop_requested(); }))
            stop.request_stop();
    });
    EXPECT_EQ(in_child(service, "scale", {}, [](const ReportPhase&) { return std::string("done"); }), "done");
}

}  // namespace
}  // namespace kiln::test
