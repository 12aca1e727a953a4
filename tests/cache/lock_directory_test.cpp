// SPDX-License-Identifier: Apache-2.0
//
// LocalLocks: the location of the locks, and what happens when the directory belongs to another user or is
// removed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <map>

#include "base/file.h"
#include "cache/local_locks.h"
#include "require.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct LockDirectory : testing::Test {
    TemporaryDirectory directory;
    const fs::path cache = directory.path() / "cache";
    const fs::path place = directory.path() / "place", other_place = directory.path() / "other";
    const fs::path own = place / ("kiln-" + std::to_string(::geteuid()));

    LockDirectory() {
        for (const auto& folder : {cache, place, other_place}) fs::create_directory(folder);
    }
    LocalLocks locks(Trust trust = {}) const { return {cache, trust, {place, other_place}}; }
    static mode_t mode(const fs::path& path) {
        struct stat status;
        return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
    }
    // The first place is squatted: its directory is neither used nor touched, and the next place is taken.
    void expect_next_place() const {
        LocalLocks next = locks();
        EXPECT_EQ(next.directory().parent_path(), other_place);
        EXPECT_EQ(next.problem(), "");
        EXPECT_TRUE(next.try_acquire("a"));

        LocalLocks none(cache, {}, {place});
        EXPECT_THAT(none.problem(), HasSubstr(own.string()));
        EXPECT_FALSE(none.try_acquire("a"));
    }
};

TEST_F(LockDirectory, IsPrivateAndBesideNoEntry) {
    const mode_t before = ::umask(0);
    LocalLocks some = locks();
    ::umask(before);
    EXPECT_EQ(some.directory(), own);
    EXPECT_EQ(mode(own), 0700u);
    const auto lock = some.try_acquire("a");
    ASSERT_TRUE(lock);
    EXPECT_TRUE(fs::exists(some.file("a")));
    EXPECT_FALSE(some.try_acquire("a"));
    EXPECT_TRUE(some.try_acquire("b"));
    EXPECT_TRUE(fs::is_empty(cache));
}

TEST_F(LockDirectory, IsOnThisMachineByDefault) {
    const LocalLocks some(cache, {});
    EXPECT_EQ(some.problem(), "");
    EXPECT_TRUE(some.directory().parent_path() == "/dev/shm" || some.directory().parent_path() == "/tmp");
}

TEST_F(LockDirectory, TwoSpellingsOfADirectoryHaveTheSameLocks) {
    fs::create_directory_symlink(cache, directory.path() / "link");
    const auto lock = locks().try_acquire("a");
    for (const char* spelling : {"cache/", "cache/../cache", "./cache", "link"})
        EXPECT_FALSE(LocalLocks(directory.path() / spelling, {}, {place}).try_acquire("a")) << spelling;
    EXPECT_TRUE(LocalLocks(directory.path() / "another", {}, {place}).try_acquire("a"));
    // Also when it comes into being only later.
    const auto early = LocalLocks(directory.path() / "new" / "one", {}, {place}).file("a");
    fs::create_directories(directory.path() / "new" / "one");
    EXPECT_EQ(LocalLocks(directory.path() / "new" / "one", {}, {place}).file("a"), early);
}

TEST_F(LockDirectory, IsMadeAgainWhenItVanishes) {
    LocalLocks some = locks();
    const auto lost = some.try_acquire("a");
    fs::remove_all(own);
    EXPECT_TRUE(some.try_acquire("a"));
    EXPECT_EQ(some.problem(), "");
    EXPECT_EQ(mode(own), 0700u);
}

TEST_F(LockDirectory, ASymbolicLinkIsRejected) {
    fs::create_directory(directory.path() / "target");
    fs::create_directory_symlink(directory.path() / "target", own);
    expect_next_place();
    EXPECT_TRUE(fs::is_empty(directory.path() / "target"));
    EXPECT_THAT(LocalLocks(cache, {}, {place}).problem(), HasSubstr("is a symbolic link"));
}

TEST_F(LockDirectory, AFileIsRejected) {
    write_text(own, "");
    expect_next_place();
    EXPECT_THAT(LocalLocks(cache, {}, {place}).problem(), HasSubstr("is not a directory"));
}

TEST_F(LockDirectory, ADirectoryThatOthersMayWriteToIsRejected) {
    fs::create_directory(own);
    ASSERT_EQ(::chmod(own.c_str(), 0777), 0);
    expect_next_place();
    EXPECT_THAT(LocalLocks(cache, {}, {place}).problem(), HasSubstr("0777"));
}

TEST_F(LockDirectory, AnotherUsersDirectoryIsRejected) {
    KILN_REQUIRE_OR_SKIP("root", ::geteuid() == 0, "only root can give a directory away");
    fs::create_directory(own);
    ASSERT_EQ(::chown(own.c_str(), 12345, 12345), 0);
    expect_next_place();
    EXPECT_THAT(LocalLocks(cache, {}, {place}).problem(), HasSubstr("belongs to user 12345"));
}

TEST_F(LockDirectory, APlaceWhereOthersMayRenameIsRejected) {
    ASSERT_EQ(::chmod(place.c_str(), 0777), 0);
    EXPECT_EQ(locks().directory().parent_path(), other_place);
    ASSERT_EQ(::chmod(place.c_str(), 01777), 0);
    EXPECT_EQ(locks().directory().parent_path(), place);
}

TEST_F(LockDirectory, IsRejectedWhenItIsTakenAwayAndSquatted) {
    LocalLocks some = locks();
    EXPECT_EQ(some.problem(), "");
    fs::remove_all(own);
    write_text(own, "");
    EXPECT_FALSE(some.try_acquire("a"));
    EXPECT_NE(some.problem(), "");
    fs::remove(own);
    EXPECT_TRUE(some.try_acquire("a"));  // and good again
    EXPECT_EQ(some.problem(), "");
}

TEST_F(LockDirectory, ALockThatIsNoFileIsAProblem) {
    LocalLocks some = locks();
    ASSERT_EQ(::mkfifo(some.file("fifo").c_str(), 0600), 0);
    EXPECT_FALSE(some.try_acquire("fifo"));
    EXPECT_THAT(some.problem(), HasSubstr(some.file("fifo").string()));
    fs::create_symlink(directory.path() / "victim", some.file("link"));
    EXPECT_FALSE(some.try_acquire("link"));
    EXPECT_FALSE(fs::exists(directory.path() / "victim"));
}

TEST_F(LockDirectory, SharedItIsTheGroups) {
    struct stat status;
    ASSERT_EQ(::stat(cache.c_str(), &status), 0);
    const fs::path groups = place / ("kiln-g" + std::to_string(status.st_gid));
    const mode_t before = ::umask(077);
    LocalLocks some = locks({.group = true});
    const auto lock = some.try_acquire("a");
    ::umask(before);
    EXPECT_EQ(some.directory(), groups);
    EXPECT_EQ(mode(groups), 02770u);
    EXPECT_EQ(mode(some.file("a")), 0660u);
    EXPECT_EQ(std::distance(fs::directory_iterator(place), {}), 1);

    ASSERT_EQ(::chmod(groups.c_str(), 02777), 0);
    EXPECT_FALSE(some.try_acquire("b"));
    EXPECT_THAT(some.problem(), HasSubstr("2777"));
    ASSERT_EQ(::chmod(groups.c_str(), 02770), 0);

    KILN_REQUIRE_OR_SKIP("root", ::geteuid() == 0, "only root can give a directory to any group");
    ASSERT_EQ(::chown(groups.c_str(), 12345, 12345), 0);
    EXPECT_FALSE(some.try_acquire("b"));
    EXPECT_THAT(some.problem(), HasSubstr("belongs to group 12345"));
}

TEST_F(LockDirectory, IsMadeWhateverTheUmask) {
    const mode_t before = ::umask(0777);
    const auto lock = locks().try_acquire("a");
    ::umask(before);
    ASSERT_TRUE(lock);
    EXPECT_EQ(mode(own), 0700u);
    EXPECT_EQ(mode(locks().file("a")), 0600u);
}

TEST_F(LockDirectory, WhatKilledHoldersLeftGoesAfterADay) {
    const LocalLocks some = locks();
    const auto held = locks().try_acquire("held");
    const std::map<std::string, int> ages_s = {{"old", 90000}, {"young", 3600}, {"held", 90000}};
    for (const auto& [name, age_s] : ages_s) {
        if (name != "held") write_text(some.file(name), "");
        const timespec time{::time(nullptr) - age_s, 0};
        const std::array<timespec, 2> times = {time, time};
        ASSERT_EQ(::utimensat(AT_FDCWD, some.file(name).c_str(), times.data(), 0), 0);
    }
    LocalLocks next = locks();
    EXPECT_TRUE(fs::exists(some.file("old"))) << "a caller without a lock must not wait for this";
    next.try_acquire("new");
    EXPECT_FALSE(fs::exists(some.file("old")));
    EXPECT_TRUE(fs::exists(some.file("young")));
    EXPECT_TRUE(fs::exists(some.file("held")));
}

}  // namespace
}  // namespace kiln
