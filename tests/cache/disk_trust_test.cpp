// SPDX-License-Identifier: Apache-2.0
//
// What the disk tier rejects: links, FIFOs, what belongs to others, what others may write.
#include <grp.h>
#include <gtest/gtest.h>

#include "disk_support.h"
#include "require.h"

namespace kiln {
namespace {

using namespace test::disk;
using std::filesystem::path;

struct DiskTrust : testing::Test {
    TemporaryDirectory directory;
    path root = directory.path() / "cache";
    std::string digest = key_of("a").digest;
    path v1 = root / "v1";
    path shard = v1 / digest.substr(0, 2);
    path file = shard / (digest + ".kiln");

    void SetUp() override {
        DiskCache cache({root});
        ASSERT_TRUE(store(cache, "a").stored) << cache.problem();
    }
    void expect_refused(const std::string& words, Trust trust = {}) {
        DiskCache cache({root, 1 << 20, trust});
        const auto found = cache.find(key_of("a"));
        EXPECT_FALSE(found.binary);
        const std::string told = found.rejected + cache.problem();
        EXPECT_NE(told.find(words), std::string::npos) << told;
        std::string reason;
        EXPECT_TRUE(cache.read(digest, reason).empty());
        EXPECT_NE(reason.find(words), std::string::npos) << reason;
        EXPECT_EQ(cache.key_text(digest), std::nullopt);
    }
    void expect_served(Trust trust = {}) {
        DiskCache cache({root, 1 << 20, trust});
        const auto found = cache.find(key_of("a"));
        EXPECT_TRUE(found.binary) << found.rejected << cache.problem();
    }
    static void set_mode(const path& path, unsigned mode) { ASSERT_EQ(::chmod(path.c_str(), mode), 0); }
    // Puts a link where something was.
    static void replace_by_link(const path& place) {
        const path elsewhere = place.string() + "-elsewhere";
        std::filesystem::rename(place, elsewhere);
        std::filesystem::create_symlink(elsewhere, place);
    }
};

TEST_F(DiskTrust, TheDirectoryItselfMayBeReachedThroughALink) {
    replace_by_link(root);
    expect_served();
}

TEST_F(DiskTrust, LinksBelowItAreRejected) {
    for (const auto& place : {v1, shard, file}) {
        replace_by_link(place);
        expect_refused("symbolic link");
        // A store replaces the file, but writes through no link.
        DiskCache cache({root});
        EXPECT_EQ(store(cache, "a").stored, place == file);
        std::filesystem::remove(place);
        std::filesystem::rename(place.string() + "-elsewhere", place);
        expect_served();
    }
}

TEST_F(DiskTrust, AFifoDoesNotHang) {
    std::filesystem::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    expect_refused("not a regular file");
    DiskCache cache({root});
    EXPECT_TRUE(store(cache, "a").stored);
    expect_served();
    // As the state, too.
    std::filesystem::remove(v1 / "state");
    ASSERT_EQ(::mkfifo((v1 / "state").c_str(), 0600), 0);
    EXPECT_TRUE(store(cache, "b").stored);
    EXPECT_EQ(cache.usage().entries, 2u);
}

TEST_F(DiskTrust, WhatOthersMayWriteIsRejected) {
    const auto own_mode = [&](const path& place) { return place == file ? 0600u : 0700u; };
    for (const auto& place : {root, v1, shard, file}) {
        for (const unsigned writable : {0020u, 0002u}) {
            set_mode(place, own_mode(place) | writable);
            expect_refused("chmod go-w");
            expect_refused(writable == 0020 ? "members of its group" : "others may write");
            char mode[16];
            std::snprintf(mode, sizeof(mode), "%04o", own_mode(place) | writable);
            expect_refused(mode);
        }
        // Readable for all is no harm.
        set_mode(place, own_mode(place) | 0055);
        expect_served();
        set_mode(place, own_mode(place));
    }
    set_mode(v1 / "tmp", 0777);
    DiskCache cache({root});
    EXPECT_FALSE(store(cache, "b").stored);
    EXPECT_NE(cache.problem().find("others may write"), std::string::npos) << cache.problem();
    EXPECT_TRUE(cache.find(key_of("a")).binary) << "a problem of storing stops reading";
}

TEST_F(DiskTrust, AProblemThatIsRepairedIsForgotten) {
    DiskCache cache({root});
    set_mode(root, 0777);
    EXPECT_FALSE(cache.find(key_of("a")).binary);
    EXPECT_FALSE(cache.readable());
    EXPECT_NE(cache.problem(), "");
    set_mode(root, 0700);
    EXPECT_TRUE(cache.readable());
    EXPECT_EQ(cache.problem(), "");
    EXPECT_TRUE(cache.find(key_of("a")).binary);
}

TEST_F(DiskTrust, WhatBelongsToOthersIsRejected) {
    KILN_REQUIRE_OR_SKIP("root", is_root(), "only root can give files away");
    for (const auto& place : {root, v1, shard, file}) {
        ASSERT_EQ(::chown(place.c_str(), 1001, 0), 0);
        expect_refused("belongs to user 1001");
        ASSERT_EQ(::chown(place.c_str(), 0, 0), 0);
        expect_served();
    }
}

TEST_F(DiskTrust, RootsFilesAreBelieved) {
    KILN_REQUIRE_OR_SKIP("root", is_root(), "only root can become another user");
    for (const auto& place : {directory.path(), root, v1, shard}) set_mode(place, 0755);
    set_mode(file, 0644);
    EXPECT_EQ(in_child([&] {
                  become_plain_user();
                  DiskCache cache({root});
                  const auto found = cache.find(key_of("a"));
                  if (!found.binary) return fail_in_child(found.rejected + cache.problem());
                  return 0;
              }),
              0);
}

TEST_F(DiskTrust, SharedWithTheGroupOnPurpose) {
    const path shared = directory.path() / "shared";
    const mode_t old_mask = ::umask(077);
    {
        DiskCache cache({shared, 1 << 20, {true}});
        EXPECT_TRUE(store(cache, "a").stored) << cache.problem();
    }
    ::umask(old_mask);
    for (const auto& place : {path(), path("v1"), path("v1") / "tmp", path("v1") / digest.substr(0, 2)}) {
        struct stat status;
        ASSERT_EQ(::stat((shared / place).c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 07777u, 02770u) << place;
    }
    for (const auto& place : {path("v1") / "state", path("v1") / digest.substr(0, 2) / (digest + ".kiln")}) {
        struct stat status;
        ASSERT_EQ(::stat((shared / place).c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 07777u, 0660u) << place;
    }
    root = shared;
    expect_served({true});
    expect_refused("KILN_CACHE_SHARE=group");
    set_mode(shared, 02777);
    expect_refused("others may write", {true});
}

TEST_F(DiskTrust, MembersOfTheGroupBelieveEachOther) {
    KILN_REQUIRE_OR_SKIP("root", is_root(), "only root can become another user");
    constexpr gid_t kGroup = 4242;
    const path shared = directory.path() / "shared";
    set_mode(directory.path(), 0755);
    ASSERT_EQ(::mkdir(shared.c_str(), 0700), 0);
    ASSERT_EQ(::chown(shared.c_str(), 1001, kGroup), 0);
    set_mode(shared, 02770);
    const auto as_user = [&](uid_t user, bool member, const std::function<int()>& work) {
        return in_child([&] {
            const gid_t group = kGroup;
            if (::setgroups(member ? 1 : 0, &group) != 0 || ::setresgid(user, user, user) != 0 ||
                ::setresuid(user, user, user) != 0)
                return fail_in_child("can't become a user");
            return work();
        });
    };
    EXPECT_EQ(as_user(1001, true,
                      [&] {
                          DiskCache cache({shared, 1 << 20, {true}});
                          return store(cache, "a").stored ? 0 : fail_in_child(cache.problem());
                      }),
              0);
    EXPECT_EQ(as_user(1002, true,
                      [&] {
                          DiskCache cache({shared, 1 << 20, {true}});
                          const auto found = cache.find(key_of("a"));
                          if (!found.binary) return fail_in_child(found.rejected + cache.problem());
                          return store(cache, "a").stored && store(cache, "b").stored
                                     ? 0
                                     : fail_in_child(cache.problem());
                      }),
              0);
    // Nobody who is no member, and nobody who did not ask for it.
    set_mode(shared, 02775);
    EXPECT_EQ(as_user(1003, false,
                      [&] {
                          return DiskCache({shared, 1 << 20, {true}}).readable() ? 1 : 0;
                      }),
              0);
    EXPECT_EQ(as_user(1002, true,
                      [&] {
                          return DiskCache({shared, 1 << 20, {false}}).readable() ? 1 : 0;
                      }),
              0);
}

// For any owner: a directory with set-group-ID passes its group to all files created in it.
TEST_F(DiskTrust, AGroupThatThisUserIsNotInIsRejected) {
    KILN_REQUIRE_OR_SKIP("root", is_root(), "only root can give a file to any group");
    for (const auto& place : {root, v1, shard, file}) {
        struct stat status;
        ASSERT_EQ(::stat(place.c_str(), &status), 0);
        ASSERT_EQ(::chown(place.c_str(), 0, 54321), 0);
        set_mode(place, (status.st_mode & 07777) | 0060);
        expect_refused("members of group 54321", {true});
        ASSERT_EQ(::chown(place.c_str(), 0, 0), 0);
        set_mode(place, status.st_mode & 07777);
        expect_served({true});
    }
}

// Identities of compilers are stored next to the entries, and decide which entries are used.
TEST_F(DiskTrust, IdentitiesThatOthersMayHaveWrittenAreNothing) {
    const path identities = v1 / "identities";
    const auto read = [&] { return DiskCache({root}).read_memory(DiskCache::Memory::identities); };
    DiskCache({root}).write_memory(DiskCache::Memory::identities, "known");
    ASSERT_EQ(read(), "known");
    struct stat status;
    ASSERT_EQ(::stat(identities.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777u, 0600u);
    for (const unsigned writable : {0020u, 0002u}) {
        set_mode(identities, 0600 | writable);
        EXPECT_EQ(read(), "");
        set_mode(identities, 0600);
        EXPECT_EQ(read(), "known");
    }
    if (is_root()) {
        ASSERT_EQ(::chown(identities.c_str(), 1001, 0), 0);
        EXPECT_EQ(read(), "") << "it belongs to another user";
        // What is found out again replaces it, and is this user's.
        DiskCache({root}).write_memory(DiskCache::Memory::identities, "own");
        EXPECT_EQ(read(), "own");
    }
    replace_by_link(identities);
    EXPECT_EQ(read(), "");
    DiskCache({root}).write_memory(DiskCache::Memory::identities, "behind a link");
    EXPECT_EQ(read(), "behind a link");
    EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(identities)));
    std::filesystem::remove(identities);
    ASSERT_EQ(::mkfifo(identities.c_str(), 0600), 0);
    EXPECT_EQ(read(), "");
    std::filesystem::remove(identities);
    DiskCache({root}).write_memory(DiskCache::Memory::identities, std::string(5 << 20, 'x'));
    EXPECT_EQ(read(), "") << "larger than any";
}

TEST_F(DiskTrust, AHugeFileIsNotRead) {
    std::filesystem::resize_file(file, (std::uintmax_t{1} << 30) + 1);
    expect_refused("1.0 GiB");
}

}  // namespace
}  // namespace kiln
