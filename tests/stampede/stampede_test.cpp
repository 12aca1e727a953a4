// SPDX-License-Identifier: Apache-2.0
//
// 64 processes ask for the same variants at once, on an empty cache: each is compiled once, for all of
// them; also when the process that compiles is killed or stopped in the middle, and over two machines.
#include "stampede.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <set>

#include "redis_server.h"
#include "require.h"
#include "scoped_variable.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using test::NotedCompiler;
using test::ScopedVariable;
using test::Stampede;
using test::WorkerReport;

// Few: for tests that need no more, since each costs half a second of all cores.
constexpr int kProcesses = 64, kVariants = 32, kFewVariants = 10;

struct StampedeTest : testing::Test {
    TemporaryDirectory directory;
    const ScopedVariable temporary{"TMPDIR", directory.path()};  // what a killed process leaves goes, too
    const ScopedVariable one_thread{"KILN_HOST_THREADS", "1"};
    const ScopedVariable no_packs{"KILN_SEED_PACKS", ""};

    fs::path folder(const std::string& name) const {
        fs::create_directory(directory.path() / name);
        return directory.path() / name;
    }
    static std::uint64_t sum(const std::vector<WorkerReport>& reports, const std::string& counter) {
        std::uint64_t total = 0;
        for (const auto& report : reports) {
            if (const auto found = report.counters.find(counter); found != report.counters.end())
                total += found->second;
        }
        return total;
    }
    /// Every process ended well, has every variant, and got the same bytes as the others, which compute what
    /// they should. killed: so many were.
    static void expect_all_served(const std::vector<WorkerReport>& reports, int variants, int killed = 0) {
        std::map<int, std::set<std::string>> binaries;
        int found_killed = 0;
        for (const auto& report : reports) {
            if (report.signal == SIGKILL) {
                ++found_killed;
                continue;
            }
            EXPECT_TRUE(report.ended_well) << report.error;
            EXPECT_EQ(report.error, "");  // no warnings
            EXPECT_EQ(report.binaries.size(), static_cast<std::size_t>(variants));
            EXPECT_EQ(report.correct, variants);
            for (const auto& [variant, bytes] : report.binaries) binaries[variant].insert(bytes);
        }
        EXPECT_EQ(found_killed, killed);
        for (const auto& [variant, bytes] : binaries) EXPECT_EQ(bytes.size(), 1u) << "variant " << variant;
    }
    static int entries(const fs::path& cache) {
        int count = 0;
        for (const auto& item : fs::recursive_directory_iterator(cache))
            count += item.path().extension() == ".kiln";
        return count;
    }
};

#define REQUIRE_COMPILER() \
    KILN_REQUIRE_OR_SKIP("host", !NotedCompiler::real_compiler().empty(), "no C++ compiler here")

TEST_F(StampedeTest, EachVariantIsCompiledOnce) {
    REQUIRE_COMPILER();
    double alone_seconds = 0;
    {
        const NotedCompiler compiler(folder("alone"), "");
        const ScopedVariable program("KILN_HOST_CXX", compiler.program());
        Stampede alone(folder("alone"));
        alone.add(folder("alone") / "cache", "", kVariants, 0);
        alone.start();
        ASSERT_TRUE(alone.wait_for_all_but(0));
        expect_all_served(alone.reports(), kVariants);
        EXPECT_EQ(compiler.compiles(), kVariants);
        alone_seconds = alone.reports()[0].seconds;
    }
    const NotedCompiler compiler(directory.path(), "");
    const ScopedVariable program("KILN_HOST_CXX", compiler.program());
    const fs::path cache = directory.path() / "cache";
    Stampede stampede(directory.path());
    for (int p = 0; p < kProcesses; ++p) stampede.add(cache, "", kVariants, 0);
    stampede.start();
    ASSERT_TRUE(stampede.wait_for_all_but(0));
    const double seconds = stampede.seconds();

    const auto reports = stampede.reports();
    expect_all_served(reports, kVariants);
    EXPECT_EQ(sum(reports, "compiles"), std::uint64_t{kVariants});
    EXPECT_EQ(compiler.compiles(), kVariants);
    EXPECT_EQ(entries(cache), kVariants);
    EXPECT_EQ(sum(reports, "take_overs"), 0u);
    std::printf("%d variants: one process %.2f s; %d processes at once %.2f s, %.2f times as long\n",
                kVariants, alone_seconds, kProcesses, seconds, seconds / alone_seconds);
}

// The killed one had begun a compile, which another process repeats: kFewVariants + 1 are begun, kFewVariants of them by
// processes that survive, and each of those has everything.
TEST_F(StampedeTest, WhenTheOneThatCompilesIsKilledAnotherDoes) {
    REQUIRE_COMPILER();
    const NotedCompiler compiler(directory.path(), "KILL");
    const ScopedVariable program("KILN_HOST_CXX", compiler.program());
    const fs::path cache = directory.path() / "cache";
    Stampede stampede(directory.path());
    for (int p = 0; p < kProcesses; ++p) stampede.add(cache, "", kFewVariants, 0);
    stampede.start();
    ASSERT_TRUE(stampede.wait_for_all_but(0));

    const auto reports = stampede.reports();
    expect_all_served(reports, kFewVariants, 1);
    EXPECT_EQ(sum(reports, "compiles"), std::uint64_t{kFewVariants});
    EXPECT_EQ(compiler.compiles(), kFewVariants + 1);
    EXPECT_EQ(entries(cache), kFewVariants);
    EXPECT_EQ(sum(reports, "take_overs"), 1u);
    std::printf("%d processes, one killed: %.2f s\n", kProcesses, stampede.seconds());
}

// The stopped one had begun a compile, which another process repeats once it is considered stalled; the
// others do not wait for it. When it goes on, it ends its own and has everything as well.
TEST_F(StampedeTest, WhenTheOneThatCompilesIsStoppedAnotherDoes) {
    REQUIRE_COMPILER();
    const NotedCompiler compiler(directory.path(), "STOP");
    const ScopedVariable program("KILN_HOST_CXX", compiler.program());
    const fs::path cache = directory.path() / "cache";
    Stampede stampede(directory.path());
    for (int p = 0; p < kProcesses; ++p) stampede.add(cache, "", kFewVariants, 0);
    stampede.start();
    ASSERT_TRUE(stampede.wait_for_all_but(1));
    const double seconds = stampede.seconds();
    EXPECT_EQ(compiler.compiles(), kFewVariants + 1);
    EXPECT_EQ(entries(cache), kFewVariants);
    const auto stopped = compiler.hit();
    ASSERT_TRUE(stopped);
    ::kill(*stopped, SIGCONT);
    ASSERT_TRUE(stampede.wait_for_all_but(0));

    const auto reports = stampede.reports();
    expect_all_served(reports, kFewVariants);
    EXPECT_EQ(sum(reports, "compiles"), std::uint64_t{kFewVariants} + 1);
    EXPECT_EQ(compiler.compiles(), kFewVariants + 1);
    EXPECT_EQ(entries(cache), kFewVariants);
    EXPECT_EQ(sum(reports, "take_overs"), 1u);
    std::printf("%d processes, one stopped: %.2f s for the others\n", kProcesses, seconds);
}

// Two directories have locks of their own, like two machines; what they share is the server. Each process
// begins with another variant, so that all of them are wanted at once.
TEST_F(StampedeTest, TwoMachinesCompileEachVariantOnce) {
    REQUIRE_COMPILER();
    KILN_REQUIRE_REDIS();
    const test::RedisServer redis;
    const NotedCompiler compiler(directory.path(), "");
    const ScopedVariable program("KILN_HOST_CXX", compiler.program());
    const fs::path caches[] = {directory.path() / "cache-a", directory.path() / "cache-b"};
    Stampede stampede(directory.path());
    for (int p = 0; p < kProcesses; ++p) stampede.add(caches[p % 2], redis.url(), kFewVariants, p / 2);
    stampede.start();
    ASSERT_TRUE(stampede.wait_for_all_but(0));

    const auto reports = stampede.reports();
    expect_all_served(reports, kFewVariants);
    EXPECT_EQ(sum(reports, "compiles"), std::uint64_t{kFewVariants});
    EXPECT_EQ(compiler.compiles(), kFewVariants);
    for (const auto& cache : caches) EXPECT_EQ(entries(cache), kFewVariants);
    EXPECT_EQ(sum(reports, "remote_failures"), 0u);
    std::printf("%d processes on two machines: %.2f s\n", kProcesses, stampede.seconds());
}

}  // namespace
}  // namespace kiln
