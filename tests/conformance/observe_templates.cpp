// SPDX-License-Identifier: Apache-2.0
//
// Every built-in template that can be run is sound and computes the same when it is observed, with each compiler there is.
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/run.h>
#include <kiln/tools/analyze.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compile/compiler.h"
#include "observed.h"
#include "scoped_variable.h"
#include "shared_cache.h"

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
            if (one.unaligned_type || !has_cost(one.kind) || one.bytes == 0 || one.address % one.bytes == 0)
                continue;
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

// What `kiln check` says of it.
void expect_sound(Analyzer& analyzer, const Variant& variant) {
    AnalyzeOptions options;
    options.most_blocks = 16;
    options.most_ms = 20'000;
    const Recording recording = analyzer.check(variant, options);
    EXPECT_GT(recording.blocks_recorded, 0U);
    // Copies by TMA are not made by any thread.
    EXPECT_TRUE(!variant.origin().tensor_maps().empty() || !recording.global.empty());
    for (const AccessProblem& problem : recording.problems)
        ADD_FAILURE() << name(problem.kind) << ": " << problem.text();
}

// Tensors without elements, which a grid that does not follow from all sizes reads nevertheless if it is not careful.
void expect_sound_where_empty(Analyzer& analyzer, const Variant& variant) {
    for (const SizeArgument& size : variant.origin().sizes()) {
        if (size.name == "max_length") continue;  // a sequence has at least one token
        AnalyzeOptions options;
        options.test_sizes = true;
        options.sizes = {{size.name, 0}};
        // Rows of packed sequences belong to one: no sequences have no rows.
        if (size.name == "batch")
            for (const SizeArgument& other : variant.origin().sizes())
                if (other.name.starts_with("total_")) options.sizes.insert({other.name, 0});
        options.record_sizes = variant.problem(options.sizes, true).sizes;
        options.most_blocks = 4;
        for (const AccessProblem& problem : analyzer.check(variant, options).problems)
            ADD_FAILURE() << size.name << " = 0: " << name(problem.kind) << ": " << problem.text();
    }
}

struct Observed {
    std::string name, compiler;
    int step;  ///< each how many templates are looked at
};

class ObservedTemplates : public testing::TestWithParam<Observed> {};

TEST_P(ObservedTemplates, AreSoundAndComputeTheSame) {
    const test::ScopedVariable chosen("KILN_HOST_CXX", GetParam().compiler);
    try {
        make_host_compiler({})->identity();
    } catch (const BuildError& error) {
        GTEST_SKIP() << error.what();
    }
    ServiceOptions host;
    host.backend = Backend::host;
    host.compile_only = true;
    host.cache.directory = test::shared_cache();
    Service target(host);
    Analyzer analyzer(target);
    test::ObservedService observed(std::make_shared<Nobody>(), test::shared_cache());
    Service& service = observed.service();
    Runner runner(service);
    RunOptions options;
    options.test_sizes = true;
    options.check = Check::full;
    options.time = false;
    int count = 0, number = 0;
    for (const Template& one : service.templates()) {
        if (!one.is_runnable() || one.is_reference() || !one.runs_on(Backend::host, "")) continue;
        if (number++ % GetParam().step != 0) continue;
        SCOPED_TRACE(one.name());
        expect_sound(analyzer, one.variant());
        expect_sound_where_empty(analyzer, one.variant());
        for (const std::string& failure : runner.run(one.variant(), options).failures())
            ADD_FAILURE() << failure;
        ++count;
    }
    EXPECT_GT(number, 25);
    EXPECT_GE(service.counters().disk_hits, static_cast<std::uint64_t>(count)) << "compiled twice";
}

INSTANTIATE_TEST_SUITE_P(Compilers, ObservedTemplates,
                         testing::Values(Observed{"sample", "g++", 4}, Observed{"gcc", "g++", 1},
                                         Observed{"clang", "clang++", 1}),
                         [](const auto& item) { return item.param.name; });

}  // namespace
}  // namespace kiln
