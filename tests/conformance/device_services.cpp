// SPDX-License-Identifier: Apache-2.0
//
// Services of several devices: the host is opened twice, as two devices.
#include <gmock/gmock.h>
#include <kiln/kiln.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "falls_asleep.h"
#include "scale_kernel.h"
#include "scoped_variable.h"

namespace kiln {
namespace {

using test::expect_scales;
using test::scale_variant;
using test::ScaleFn;
using testing::HasSubstr;

struct SharedBuildsOnHost : test::ServiceFixture {};

TEST_F(SharedBuildsOnHost, CompileEachVariantOnce) {
    for (const bool has_cache : {true, false}) {
        auto options = this->options();
        options.cache.enabled = has_cache;
        Service first(options), second(first, 0);
        std::optional<Kernel<ScaleFn>> kernels[2];
        std::thread other([&] { kernels[1] = second.build<ScaleFn>(scale_variant(second, 3)); });
        kernels[0] = first.build<ScaleFn>(scale_variant(first, 3));
        other.join();
        EXPECT_NE(kernels[0]->module_handle(), kernels[1]->module_handle()) << "each device loads its own";
        expect_scales(first, *kernels[0], 3);
        expect_scales(second, *kernels[1], 3);
        EXPECT_EQ(first.counters().compiles, 1u);
        // Not at the same time.
        first.build<ScaleFn>(scale_variant(first, 5));
        const auto later = second.build<ScaleFn>(scale_variant(second, 5));
        EXPECT_EQ(later.origin(), has_cache ? Origin::disk : Origin::memory);
        expect_scales(second, later, 5);
        EXPECT_EQ(first.counters().compiles, 2u);
        EXPECT_EQ(first.counters(), second.counters());
    }
}

TEST_F(SharedBuildsOnHost, OutliveTheServiceThatBegan) {
    auto first = std::make_unique<Service>(options());
    Service second(*first, 0);
    const auto kernel = first->build<ScaleFn>(scale_variant(*first, 2));
    first.reset();
    expect_scales(second, second.build<ScaleFn>(scale_variant(second, 2)), 2);
    expect_scales(second, second.build_async<ScaleFn>(scale_variant(second, 7)).get(), 7);
    EXPECT_EQ(second.counters().compiles, 2u);
}

TEST_F(SharedBuildsOnHost, DeviceServicesAreOnePerDevice) {
    DeviceServices services(options());
    EXPECT_EQ(services.backend(), Backend::host);
    EXPECT_THROW(services.of(7), DeviceError);
    Service& first = services.of(0);
    EXPECT_EQ(&services.of(0), &first);
    EXPECT_EQ(&services.current(), &first);
    EXPECT_THROW(services.of(7), DeviceError);
    auto options = this->options();
    options.backend.reset();
    options.arch = "sm_90a";
    options.compile_only = true;
    DeviceServices for_cuda(options);
    EXPECT_EQ(for_cuda.backend(), Backend::cuda) << "the architecture's";
    EXPECT_EQ(for_cuda.of(0).backend(), Backend::cuda);
    options.context = ContextRef::current();
    try {
        DeviceServices wrong(options);
        ADD_FAILURE();
    } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), HasSubstr("Service(shares, device, context)"));
    }
}

TEST_F(SharedBuildsOnHost, DeviceServicesStartOverInAForkedChild) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the thread sanitizer allows no threads after fork";
#endif
    const test::ScopedVariable no_directory("KILN_CACHE_DIR", ""), no_cache_home("XDG_CACHE_HOME", ""),
        no_home("HOME", "");
    auto options = this->options();
    options.cache.directory.reset();
    std::promise<void> opens, forked;
    options.on_warning = [&, parent = ::getpid()](std::string_view) {  // there is no directory for the cache
        if (::getpid() != parent) return;
        opens.set_value();
        forked.get_future().wait();
    };
    DeviceServices services(options);
    std::jthread other([&] { services.of(0); });
    opens.get_future().wait();
    const pid_t child = ::fork();  // while the other thread opens the device
    if (child == 0) {
        ::alarm(60);
        const auto variant = scale_variant(services.of(0), 3);
        expect_scales(services.of(0), services.of(0).build<ScaleFn>(variant), 3);
        services.~DeviceServices();
        ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    forked.set_value();
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST_F(SharedBuildsOnHost, ACallbackMayAskForAServiceWhileTheyEnd) {
    auto options = this->options();
    options.compile_only = true;  // for as many devices as there are numbers; builds of kernels fail
    options.arch = "x86-64";
    const auto end_while_asked = [&] {
        ::alarm(60);  // a deadlock ends the process by a signal
        std::atomic<int> finished = 0, right = 0;
        std::promise<void> are_ending;
        const pid_t ends_them = ::gettid();
        {
            DeviceServices services(options);
            Service &one = services.of(1), &two = services.of(2);
            const Variant variant = scale_variant(one, 3);
            one.build_async(variant, [&](AnyKernel, std::exception_ptr) {
                are_ending.get_future().wait();
                right += test::falls_asleep(ends_them);  // the destructor waits
                right += &services.of(1) == &one;
                right += &services.of(2) == &two;
                for (const int device : {0, 1, 2})
                    services.of(device).build_async(variant, [&, device](AnyKernel, std::exception_ptr) {
                        right += &services.of(2) == &two;
                        right += services.of(device).target().arch == "x86-64";
                        ++finished;
                    });
            });
            are_ending.set_value();
        }
        return 10 * finished + right;
    };
    EXPECT_EXIT(std::_Exit(end_while_asked()), testing::ExitedWithCode(39), "");
}

}  // namespace
}  // namespace kiln
