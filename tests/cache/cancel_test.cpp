// SPDX-License-Identifier: Apache-2.0
//
// Builds in the background that nobody wants any more: one that waits for its turn is not begun, the process of one that
// compiles is ended, others who want the same are served, and nothing half-made stays. And threads that are cancelled.
#include <gmock/gmock.h>
#include <kiln/kiln.h>
#include <pthread.h>

#include <chrono>
#include <string>
#include <thread>

#include "base/file.h"
#include "rejected.h"
#include "sanitized.h"
#include "scale_kernel.h"
#include "scoped_variable.h"

namespace kiln {
namespace {

using namespace std::chrono_literals;
using test::expect_scales;
using test::rejected;
using test::scale_variant;
using test::ScaleFn;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// The host's compiler is a script that notes each compile and, while the file "slow" is there, hangs in it.
class Cancel : public test::ServiceFixture {
  protected:
    Cancel() : compiler_("KILN_HOST_CXX", path("c++")) {
        write_text(path("c++"), "#!/bin/sh\ncase \"$*\" in *specialised.cpp*)\n    echo $$ >> '" +
                                    path("begun") + "'\n    while [ -e '" + path("slow") +
                                    "' ]; do sleep 0.02; done;;\nesac\nexec c++ \"$@\"\n");
        std::filesystem::permissions(path("c++"), std::filesystem::perms::owner_all);
        write_text(path("slow"), "");
    }
    std::string path(const std::string& name) const { return (directory.path() / name).string(); }

    ServiceOptions one_worker() {
        ServiceOptions result = options();
        result.workers = 1;
        return result;
    }
    std::ptrdiff_t begun() const {
        const std::string text = read_text_if_exists(path("begun")).value_or("");
        return std::ranges::count(text, '\n');
    }
    void wait_until_begun(std::ptrdiff_t compiles) const {
        const auto limit = Clock::now() + 60s;
        while (begun() < compiles && Clock::now() < limit) std::this_thread::sleep_for(5ms);
        ASSERT_EQ(begun(), compiles);
    }
    /// So that compilers are not slow any more.
    void go_on() const { std::filesystem::remove(path("slow")); }

    std::size_t entries() const {
        std::size_t count = 0;
        for (const auto& one : std::filesystem::recursive_directory_iterator(directory.path() / "cache"))
            if (one.path().extension() == ".kiln" ||
                one.path().string().find("temporary") != std::string::npos)
                ++count;
        return count;
    }

  private:
    test::ScopedVariable compiler_;
};

template <class Future>
std::string failure(Future future) {
    return rejected<BuildError>([&] { (void)future.get(); });
}

TEST_F(Cancel, ARunningCompileIsEndedAndAQueuedOneNeverBegun) {
    Service service(one_worker());
    std::stop_source stop;
    auto running = service.build_async<ScaleFn>(scale_variant(service, 2), stop.get_token());
    wait_until_begun(1);
    auto queued = service.compile_async(scale_variant(service, 3), stop.get_token());
    auto kept = service.build_async<ScaleFn>(scale_variant(service, 4));
    const auto start = Clock::now();
    stop.request_stop();
    EXPECT_THAT(failure(std::move(running)), HasSubstr("stop was requested"));
    EXPECT_THAT(failure(std::move(queued)), HasSubstr("was not begun, since a stop was requested"));
    EXPECT_LT(Clock::now() - start, 5s);
    EXPECT_EQ(entries(), 0u);
    go_on();
    expect_scales(service, kept.get(), 4);
    EXPECT_EQ(begun(), 2);
    EXPECT_EQ(entries(), 1u);
    // What was cancelled can be built.
    expect_scales(service, service.build<ScaleFn>(scale_variant(service, 2)), 2);
    EXPECT_TRUE(warnings.empty());
}

TEST_F(Cancel, ACompileThatOthersWantGoesOn) {
    Service service(options());
    std::stop_source first_stop, second_stop;
    auto first = service.build_async<ScaleFn>(scale_variant(service, 2), first_stop.get_token());
    wait_until_begun(1);
    std::string second_failure;
    std::thread second([&] {  // who waits with the first
        second_failure =
            failure(service.build_async<ScaleFn>(scale_variant(service, 2), second_stop.get_token()));
    });
    std::thread third([&] { expect_scales(service, service.build<ScaleFn>(scale_variant(service, 2)), 2); });
    std::this_thread::sleep_for(100ms);
    second_stop.request_stop();
    second.join();  // at once, though the compile goes on
    EXPECT_THAT(second_failure, HasSubstr("cancelled by a stop request"));
    first_stop.request_stop();
    std::this_thread::sleep_for(300ms);  // a stop ends a process within a tenth of a second
    go_on();
    third.join();
    EXPECT_EQ(begun(), 1);
    (void)first.wait_for(60s);
}

TEST_F(Cancel, WhoComesWhenItIsBeingEndedIsServed) {
    Service service(options());
    for (int factor = 2; factor < 5; ++factor) {
        std::stop_source stop;
        write_text(path("slow"), "");
        const std::ptrdiff_t before = begun();
        auto cancelled = service.build_async<ScaleFn>(scale_variant(service, factor), stop.get_token());
        wait_until_begun(before + 1);
        go_on();
        stop.request_stop();
        expect_scales(service, service.build<ScaleFn>(scale_variant(service, factor)),
                      static_cast<float>(factor));
        (void)cancelled.wait_for(60s);
    }
}

TEST_F(Cancel, AStopBeforeTheCallBuildsNothing) {
    Service service(options());
    std::stop_source stop;
    stop.request_stop();
    EXPECT_THAT(failure(service.build_async<ScaleFn>(scale_variant(service, 2), stop.get_token())),
                HasSubstr("scale FACTOR=2: its build was not begun, since a stop was requested"));
    EXPECT_EQ(begun(), 0);
}

struct BuildOfThread {
    Service& service;
    Variant variant;
    Kernel<ScaleFn> kernel;
};

void* build_then_end(void* argument) {
    auto& build = *static_cast<BuildOfThread*>(argument);
    build.kernel = build.service.build<ScaleFn>(build.variant);
    ::pthread_testcancel();
    return nullptr;
}

TEST_F(Cancel, AThreadThatIsCancelledInABuildEndsBehindIt) {
    if (test::kAddressSanitized)
        GTEST_SKIP() << "AddressSanitizer leaves the stack of such a thread poisoned";
    Service service(options());
    BuildOfThread build{service, scale_variant(service, 2), {}};
    pthread_t thread{};
    ASSERT_EQ(::pthread_create(&thread, nullptr, build_then_end, &build), 0);
    wait_until_begun(1);
    EXPECT_EQ(::pthread_cancel(thread), 0);
    std::this_thread::sleep_for(100ms);
    go_on();
    void* result = nullptr;
    ASSERT_EQ(::pthread_join(thread, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED);
    ASSERT_TRUE(build.kernel);
    expect_scales(service, build.kernel, 2);
    expect_scales(service, service.build<ScaleFn>(scale_variant(service, 3)), 3);
    EXPECT_EQ(begun(), 2);
}

}  // namespace
}  // namespace kiln
