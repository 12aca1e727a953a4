// SPDX-License-Identifier: Apache-2.0
//
// Work in a child process: its time limit, errors come back as they are, and the
// child starts whatever other threads do.
#include "run/isolated.h"

#include <gmock/gmock.h>
#include <kiln/error.h>
#include <kiln/run.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "base/dynamic_library.h"
#include "base/file.h"
#include "falls_asleep.h"
#include "host_kernel.h"
#include "rejected.h"
#include "scale_kernel.h"

namespace kiln::test {
namespace {

constexpr std::chrono::milliseconds kLimit{200};

/// Work that a loaded machine needs much time for.
void rest() { std::this_thread::sleep_for(3 * kLimit); }

/// A kernel's library whose constructor, or destructor, makes the file `begun` and then holds the lock of atexit(), but
/// for moments, until there is the file `enough`.
std::string slow_library(const std::string& which, const std::filesystem::path& begun,
                         const std::filesystem::path& enough) {
    return R"(
#include <fcntl.h>
#include <unistd.h>
#include <chrono>
#include "kiln/device.h"
extern "C" int __cxa_atexit(void (*)(void*), void*, void*) noexcept;
extern "C" void __cxa_finalize(void*);
namespace {
struct Slow {
    )" + which +
           R"(() {
        static char all, none;
        for (int i = 0; i < 20000; ++i) __cxa_atexit([](void*) {}, nullptr, &all);
        close(open(")" +
           begun.string() + R"(", O_CREAT | O_WRONLY, 0600));
        const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
        while (access(")" +
           enough.string() + R"(", F_OK) != 0 && std::chrono::steady_clock::now() < end)
            for (int i = 0; i < 100; ++i) __cxa_finalize(&none);  // looks through the list
        __cxa_finalize(&all);
    }
} slow;
}
extern "C" __global__ void kernel() {}
)";
}

bool appears(const std::filesystem::path& file) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!std::filesystem::exists(file)) {
        if (std::chrono::steady_clock::now() > until) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

struct Isolated : ServiceFixture {
    ServiceOptions limited() {
        ServiceOptions result = options();
        result.isolate_host = true;
        result.host_time_limit = kLimit;
        return result;
    }
};

/// The message with which work that takes too long ends.
template <class Work>
std::string time_over(const Service& service, const ReportPhase& on_phase, const Work& work) {
    return rejected<DeviceError>([&] {
        in_child(service, "scale", on_phase, [&](const ReportPhase& tell) {
            work(tell);
            return std::string("done");
        });
    });
}

TEST_F(Isolated, LittleWorkBeforeTheFirstKernelMayTakeLongerThanTheLimit) {
    Service service(limited());
    EXPECT_EQ(in_child(service, "scale", {},
                       [](const ReportPhase&) {
                           rest();
                           return std::string("done");
                       }),
              "done");
}

TEST_F(Isolated, LongWorkBeforeTheFirstKernelMeetsTheLimit) {
    Service service(limited());
    const auto start = std::chrono::steady_clock::now();
    const auto message = [&](const std::string& phase) {
        return time_over(service, {}, [&](const ReportPhase& tell) {
            if (!phase.empty()) tell(phase);
            std::this_thread::sleep_for(std::chrono::minutes(1));
        });
    };
    EXPECT_THAT(message("filling"),
                testing::AllOf(testing::HasSubstr("time limit of 0.2 s"),
                               testing::HasSubstr("while its tensors were filled, before its first launch")));
    EXPECT_THAT(message(""), testing::HasSubstr("before its first launch"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(40));
}

TEST_F(Isolated, ExpectedValuesMeetTheLimit) {
    Service service(limited());
    const auto kernel = service.build<ScaleFn>(scale_variant(service, 3));
    const std::string message = time_over(service, {}, [&](const ReportPhase& tell) {
        expect_scales(service, kernel, 3);
        tell("checking");
        std::this_thread::sleep_for(std::chrono::minutes(1));
    });
    EXPECT_THAT(message, testing::HasSubstr("while its results were checked"));
}

TEST_F(Isolated, TheFirstKernelHasTheWholeOfAShortLimit) {
    Service service(limited());
    const auto kernel = service.build<ScaleFn>(scale_variant(service, 3));
    const std::string message = time_over(service, {}, [&](const ReportPhase&) {
        expect_scales(service, kernel, 3);
        rest();
    });
    EXPECT_THAT(message, testing::HasSubstr("longer on the host than the time limit of 0.2 s"));
}

// A parent that has no processor for a while, as on a busy machine, continues when the limit is over.
TEST_F(Isolated, WhatIsSentInTimeCountsHoweverLateItIsRead) {
    Service service(limited());
    const auto kernel = service.build<ScaleFn>(scale_variant(service, 3));
    const auto is_held_up = [](std::string_view phase) {
        if (phase == "filling") rest();
    };
    EXPECT_EQ(in_child(service, "scale", is_held_up,
                       [&](const ReportPhase& tell) {
                           tell("filling");
                           expect_scales(service, kernel, 3);
                           return std::string("done");
                       }),
              "done");
    const std::string message = time_over(service, is_held_up, [&](const ReportPhase& tell) {
        tell("filling");
        expect_scales(service, kernel, 3);
        tell("checking");
        std::this_thread::sleep_for(std::chrono::minutes(1));
    });
    EXPECT_THAT(message, testing::HasSubstr("while its results were checked"));
}

// Kernels have all of the process, this end of its pipe as well.
TEST_F(Isolated, AKernelThatClosesThePipeMeetsTheLimit) {
    Service service(limited());
    const auto kernel = service.build<ScaleFn>(scale_variant(service, 3));
    const std::string message = time_over(service, {}, [&](const ReportPhase&) {
        expect_scales(service, kernel, 3);
        for (int file = STDERR_FILENO + 1; file < 1024; ++file) ::close(file);
        std::this_thread::sleep_for(std::chrono::minutes(1));
    });
    EXPECT_THAT(message, testing::HasSubstr("longer on the host than the time limit of 0.2 s"));
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

// Up to the end of the page behind a tensor its guard is compared, and from there on there is no memory.
TEST_F(Isolated, AWriteFarBeyondATensorIsToldWithItsElement) {
    ServiceOptions given = limited();
    given.host_time_limit = std::chrono::minutes(1);
    Service service(given);
    const Variant variant = service
                                .parse(R"(//@ kernel stray
//@ block 32
//@ grid 1
//@ size n = 1000
//@ size place = 1
//@ output y [n]
#include "kiln/device.h"
extern "C" __global__ void stray(int n, int place, float* y) {
    for (int i = threadIdx.x; i < n; i += 32) y[i] = 1;
    if (threadIdx.x == 3) y[place < 100000000 ? place : 100000000 - place] += 1;
})",
                                       "stray.cu")
                                .variant();
    const auto run = [&](std::int64_t place) {
        RunOptions options;
        options.time = false;
        options.sizes = {{"place", place < 0 ? 100000000 - place : place}};
        return Runner(service).run(variant, options);
    };
    EXPECT_THAT(run(2047).overrun, testing::ElementsAre(Overrun{"y", false, 1047 * sizeof(float)}));
    EXPECT_THAT(run(-1024).overrun, testing::ElementsAre(Overrun{"y", true, 1023 * sizeof(float)}));
    for (const std::int64_t place : {2048, 6120, 21000, 4000000, -1025, -20000}) {
        try {
            run(place);
            FAIL() << place;
        } catch (const DeviceError& error) {
            const std::string end = ": element " + std::to_string(place) + " of y, which has 1000.";
            EXPECT_THAT(error.what(),
                        testing::AllOf(testing::HasSubstr("thread (3,0,0)"),
                                       testing::HasSubstr("is not mapped memory"), testing::EndsWith(end)));
        }
    }
}

struct IsolatedBesideAThread : Isolated {
    const std::filesystem::path begun = directory.path() / "begun", enough = directory.path() / "enough";

    /// Launches while a thread is in the constructor or destructor of a slow_library(): `work` gets there.
    void expect_a_child_starts_beside(const std::function<void()>& work) {
        ServiceOptions given = limited();
        std::stop_source stop;
        given.stop = stop.get_token();
        Service service(given);
        const std::jthread thread(work);
        ASSERT_TRUE(appears(begun));
        const std::jthread lets_it_end([&, launches = ::gettid()] {
            EXPECT_TRUE(falls_asleep(launches));  // it waits for the library, or for the child
            write_text(enough, "");
        });
        // A child that hangs would do so for ten minutes.
        const std::jthread patience([&](const std::stop_token& over) {
            std::mutex mutex;
            std::unique_lock lock(mutex);
            if (!std::condition_variable_any().wait_for(lock, over, std::chrono::minutes(1),
                                                        [&] { return over.stop_requested(); }))
                stop.request_stop();
        });
        EXPECT_EQ(in_child(service, "scale", {}, [](const ReportPhase&) { return std::string("done"); }),
                  "done");
    }
};

TEST_F(IsolatedBesideAThread, ThatOpensALibrary) {
    const std::filesystem::path library = directory.path() / "slow.so";
    const Binary binary = compile_for_host(slow_library("Slow", begun, enough));
    write_text(library, {reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size()});
    expect_a_child_starts_beside([&] {
        std::string problem;
        DynamicLibrary opened = DynamicLibrary::open({library.string()}, &problem);
        EXPECT_TRUE(opened) << problem;
        opened.keep_forever();
    });
}

TEST_F(IsolatedBesideAThread, ThatLoadsAKernel) {
    const Binary binary = compile_for_host(slow_library("Slow", begun, enough));
    expect_a_child_starts_beside([&] { EXPECT_NE(HostKernel(binary).module().function_handle(), nullptr); });
}

TEST_F(IsolatedBesideAThread, ThatUnloadsAKernel) {
    std::optional<HostKernel> kernel(std::in_place, slow_library("~Slow", begun, enough));
    EXPECT_NE(kernel->module().function_handle(), nullptr);
    expect_a_child_starts_beside([&] { kernel.reset(); });
}

}  // namespace
}  // namespace kiln::test
