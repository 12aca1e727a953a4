// SPDX-License-Identifier: Apache-2.0
//
// The main job on storage that is full, read-only, removed, owned by another user, or has another clock: it
// passes, and one line says why nothing is kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "../cli/program.h"
#include "require.h"

namespace kiln::test {
namespace {

using testing::HasSubstr;

class JobOnStorage : public JitGemm {
  protected:
    /// That the job passes twice, each time with these words in one line about the cache (no words: no line).
    void expect_passes(const Environment& environment, const std::string& words, const std::string& second) {
        for (const auto& origin : {std::string("compiled"), second}) {
            const auto outcome = multiply({"--json"}, environment);
            ASSERT_EQ(outcome.status, 0) << outcome.err;
            EXPECT_EQ(outcome.json()["cache"], origin);
            EXPECT_THAT(outcome.err, HasSubstr(words));
            EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), words.empty() ? 0 : 1)
                << outcome.err;
        }
    }
    /// The same in a mount namespace of its own, where the shell commands have prepared the folder "cache".
    void expect_passes_mounted(const std::string& commands, const std::string& words) {
        const std::string own = ::geteuid() == 0 ? "unshare -m" : "unshare -rm";
        const bool can_mount = run_in_shell(own + " mount -t tmpfs none /mnt").status == 0;
        KILN_REQUIRE_OR_SKIP("mounts", can_mount, "no mount namespaces here");
        const auto cache = path("cache").string();
        ::mkdir(cache.c_str(), 0700);
        const auto outcome =
            run_in_shell(own + " sh -c 'cache=" + cache + "; " + commands +
                         "; exec \"$0\" --backend host --kernel gemm_naive --m 5 --n 6 --k 7 --json' \"$0\"");
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_EQ(outcome.json()["cache"], "compiled");
        EXPECT_THAT(outcome.err, HasSubstr(words));
        EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    }
};

TEST_F(JobOnStorage, AHomeThatCantBeWritten) {
    expect_passes({{"KILN_CACHE_DIR", ""}, {"XDG_CACHE_HOME", ""}, {"HOME", "/dev/null/nobody"}},
                  "kept in memory only", "compiled");
}

TEST_F(JobOnStorage, NoHome) {
    expect_passes({{"KILN_CACHE_DIR", ""}, {"XDG_CACHE_HOME", ""}, {"HOME", ""}}, "HOME", "compiled");
}

TEST_F(JobOnStorage, AFullDisk) {
    expect_passes_mounted("mount -t tmpfs -o size=20k,mode=700 none $cache", "No space left on device");
}

TEST_F(JobOnStorage, AReadOnlyDisk) {
    expect_passes_mounted("mount -t tmpfs -o ro,mode=700 none $cache", "Read-only file system");
}

TEST_F(JobOnStorage, ADirectoryThatAnyoneMayWriteTo) {
    ASSERT_EQ(::mkdir(path("cache").c_str(), 0700), 0);
    ASSERT_EQ(::chmod(path("cache").c_str(), 0777), 0);
    expect_passes(usual_environment(), "chmod", "compiled");
}

TEST_F(JobOnStorage, ADirectoryThatVanishesBetweenRuns) {
    expect_passes(usual_environment(), "", "disk");
    std::filesystem::remove_all(path("cache"));
    expect_passes(usual_environment(), "", "disk");
}

TEST_F(JobOnStorage, EntriesFromAnotherTime) {
    expect_passes(usual_environment(), "", "disk");
    for (const auto years : {-40, 40}) {
        for (const auto& item : std::filesystem::recursive_directory_iterator(path("cache")))
            std::filesystem::last_write_time(
                item.path(), std::filesystem::file_time_type::clock::now() + std::chrono::years(years));
        const auto outcome = multiply({"--json"});
        EXPECT_EQ(outcome.json()["cache"], "disk");
        EXPECT_EQ(outcome.err, "");
    }
}

}  // namespace
}  // namespace kiln::test
