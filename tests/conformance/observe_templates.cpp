// SPDX-License-Identifier: Apache-2.0
//
// Every built-in template that can be run computes the same when it is observed, with each compiler there is.
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/run.h>

#include <memory>
#include <string>
#include <vector>

#include "compile/compiler.h"
#include "observed.h"
#include "scoped_variable.h"

namespace kiln {
namespace {

class Nobody : public AccessObserver {
  public:
    void begin_launch(const ObservedLaunch&) override {}
    bool begin_block(Dim3) override { return true; }
    void accesses(unsigned, std::span<const ObservedAccess>) override {}
    void bad_index(unsigned thread, const ObservedBadIndex& what) override {
        ADD_FAILURE() << what.file << ":" << what.line << ": thread " << thread << ": " << what.array_type
                      << " " << what.index;
    }
    void meeting(std::span<const unsigned>, bool) override {}
    void release(unsigned, std::uint64_t) override {}
    void acquire(unsigned, std::uint64_t) override {}
    void end_block() override {}
    void end_launch() override {}
};

// The host takes a vector from any address; a GPU ends the kernel.
class OfAlignment final : public Nobody {
  public:
    void accesses(unsigned thread, std::span<const ObservedAccess> some) override {
        for (const ObservedAccess& one : some) {
            if (one.unaligned_type || one.bytes == 0 || one.address % one.bytes == 0) continue;
            if (++count == 1)
                first = "thread " + std::to_string(thread) + ", " + std::to_string(one.bytes) + " bytes";
        }
    }
    std::uint64_t count = 0;
    std::string first;
};

// Rows whose lengths vectors divide, where that is no large problem, at addresses that they do not divide, unless the
// template says what it needs (`align`).
TEST(ObservedAddresses, NoAccessIsMisaligned) {
    const auto observer = std::make_shared<OfAlignment>();
    test::ObservedService observed(observer);
    Service& service = observed.service();
    Runner runner(service);
    constexpr std::int64_t kLarge = 1 << 20;  // bytes
    for (const Template& one : service.templates()) {
        if (!one.is_runnable() || one.is_reference() || !one.runs_on(Backend::host, "")) continue;
        const std::string& name = one.name();
        const Variant variant = one.variant();
        Sizes even;
        for (const SizeArgument& size : one.sizes()) even[size.name] = 64;
        if (variant.problem(even).bytes > kLarge) even.clear();
        for (const int skew : {1, 2, 4}) {
            RunOptions options;
            options.sizes = even;
            options.test_sizes = true;
            options.skew = skew;
            options.check = Check::full;
            options.time = false;
            for (const std::string& failure : runner.run(variant, options).failures())
                ADD_FAILURE() << name << ": " << failure;
            EXPECT_EQ(observer->count, 0u) << name << " with skew " << skew << ": " << observer->first;
            observer->count = 0;
        }
    }
}

class ObservedTemplates : public testing::TestWithParam<std::string> {};

TEST_P(ObservedTemplates, ComputeTheSame) {
    const test::ScopedVariable chosen("KILN_HOST_CXX", GetParam());
    try {
        make_host_compiler({})->identity();
    } catch (const BuildError& error) {
        GTEST_SKIP() << error.what();
    }
    test::ObservedService observed(std::make_shared<Nobody>());
    Service& service = observed.service();
    Runner runner(service);
    RunOptions options;
    options.test_sizes = true;
    options.check = Check::full;
    options.time = false;
    int count = 0;
    for (const Template& one : service.templates()) {
        if (!one.is_runnable() || one.is_reference() || !one.runs_on(Backend::host, "")) continue;
        SCOPED_TRACE(one.name());
        for (const std::string& failure : runner.run(one.variant(), options).failures())
            ADD_FAILURE() << failure;
        ++count;
    }
    EXPECT_GT(count, 25);
}

INSTANTIATE_TEST_SUITE_P(Compilers, ObservedTemplates, testing::Values("g++", "clang++"),
                         [](const auto& item) { return item.param == "g++" ? "gcc" : "clang"; });

}  // namespace
}  // namespace kiln
