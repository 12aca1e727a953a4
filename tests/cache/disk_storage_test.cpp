// SPDX-License-Identifier: Apache-2.0
//
// Storage that is full, read-only, unwritable, or goes away: stores say no, look-ups go on, and a storage
// that works again is used again.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "cache/disk_state.h"
#include "disk_support.h"
#include "require.h"

namespace kiln {
namespace {

using namespace test::disk;
using std::filesystem::path;

constexpr int kCantMount = 77;

// For children: a private view of mounts, in which this process may mount; false where that isn't allowed.
bool enter_mount_namespace() {
    const std::string user = std::to_string(::geteuid());
    const std::string group = std::to_string(::getegid());
    if (::unshare(CLONE_NEWNS) != 0) {
        if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
        try {
            write_text("/proc/self/setgroups", "deny");
            write_text("/proc/self/uid_map", "0 " + user + " 1");
            write_text("/proc/self/gid_map", "0 " + group + " 1");
        } catch (const std::exception&) {
            return false;
        }
    }
    return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

bool mount_tmpfs(const path& place, const char* options) {
    return ::mount("kiln-test", place.c_str(), "tmpfs", 0, options) == 0;
}

TEST(DiskStorage, AFullDisk) {
    const TemporaryDirectory directory;
    const int status = in_child([&] {
        if (!enter_mount_namespace() || !mount_tmpfs(directory.path(), "size=256k,mode=0700"))
            return kCantMount;
        DiskCache cache({directory.path() / "cache"});
        if (!store(cache, "a", 20000).stored) return fail_in_child(cache.problem());
        Counters counters;
        counters.misses = 9;
        cache.add(counters);
        write_text(directory.path() / "ballast", std::string(100000, 'x'));
        int stored = 0;
        while (store(cache, "b" + std::to_string(stored), 20000).stored)
            if (++stored == 100) return fail_in_child("the disk does not become full");
        if (cache.problem().find("No space left") == std::string::npos)
            return fail_in_child("unclear: " + cache.problem());
        cache.add(counters);
        if (count_temporaries(cache) != 0) return fail_in_child("something half-written stays");
        if (!cache.find(key_of("a")).binary) return fail_in_child("look-ups stop");
        if (!cache.verify(false).damaged.empty()) return fail_in_child("something is damaged");
        if (cache.usage().counters.misses < 9) return fail_in_child("counters are lost");
        std::filesystem::remove(directory.path() / "ballast");
        if (!store(cache, "c", 20000).stored || !cache.problem().empty())
            return fail_in_child("it does not recover: " + cache.problem());
        return 0;
    });
    KILN_REQUIRE_OR_SKIP("mounts", status != kCantMount, "this user may not mount a tmpfs");
    EXPECT_EQ(status, 0);
}

TEST(DiskStorage, AReadOnlyFileSystem) {
    const TemporaryDirectory directory;
    const int status = in_child([&] {
        if (!enter_mount_namespace() || !mount_tmpfs(directory.path(), "size=1m,mode=0700"))
            return kCantMount;
        const auto place = directory.path() / "cache";
        {
            DiskCache cache({place});
            if (!store(cache, "a").stored) return fail_in_child(cache.problem());
            cache.write_memory(DiskCache::Memory::identities, "known");
        }
        if (::mount("none", directory.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0)
            return kCantMount;
        DiskCache cache({place});
        if (cache.problem().find("Read-only") == std::string::npos)
            return fail_in_child("unclear: " + cache.problem());
        if (!cache.readable() || !cache.find(key_of("a")).binary) return fail_in_child("look-ups stop");
        if (store(cache, "b").stored) return fail_in_child("stored where nothing can be");
        cache.write_memory(DiskCache::Memory::identities, "new");
        if (cache.read_memory(DiskCache::Memory::identities) != "known")
            return fail_in_child("identities are lost");
        DiskCache none({directory.path() / "other"});
        if (none.readable() || none.problem().empty()) return fail_in_child("made what can't be made");
        if (::mount("none", directory.path().c_str(), nullptr, MS_REMOUNT, nullptr) != 0) return kCantMount;
        if (!store(cache, "b").stored || !cache.problem().empty() || !none.readable())
            return fail_in_child("it does not recover: " + cache.problem() + none.problem());
        return 0;
    });
    KILN_REQUIRE_OR_SKIP("mounts", status != kCantMount, "this user may not mount a tmpfs");
    EXPECT_EQ(status, 0);
}

TEST(DiskStorage, AQuotaOfFileSize) {
    const TemporaryDirectory directory;
    EXPECT_EQ(in_child([&] {
                  const rlimit limit{10000, RLIM_INFINITY};
                  DiskCache cache({directory.path()});
                  ::setrlimit(RLIMIT_FSIZE, &limit);
                  if (store(cache, "a", 20000).stored) return fail_in_child("stored beyond the limit");
                  if (cache.problem().find("File too large") == std::string::npos)
                      return fail_in_child("unclear: " + cache.problem());
                  if (count_temporaries(cache) != 0) return fail_in_child("something half-written stays");
                  return store(cache, "b", 2000).stored && cache.problem().empty()
                             ? 0
                             : fail_in_child(cache.problem());
              }),
              0);
}

TEST(DiskStorage, AnyUmaskMakesADirectoryThatWorks) {
    for (const mode_t mask : {0000, 0077, 0777}) {
        const TemporaryDirectory directory;
        give_to_plain_user(directory.path());
        EXPECT_EQ(in_child([&] {
                      become_plain_user();
                      ::umask(mask);
                      const path place = directory.path() / "a" / "cache";
                      DiskCache cache({place});
                      if (!store(cache, "a").stored || !has(cache, "a"))
                          return fail_in_child(cache.problem());
                      struct stat root, entry;
                      return ::stat(place.c_str(), &root) == 0 && (root.st_mode & 07777) == 0700 &&
                                     ::stat(path_of(cache, "a").c_str(), &entry) == 0 &&
                                     (entry.st_mode & 07777) == 0600
                                 ? 0
                                 : fail_in_child("a wrong mode");
                  }),
                  0)
            << mask;
    }
}

// Each has a /dev/shm of its own, as containers have.
TEST(DiskStorage, ContainersOnOneDirectoryKeepAccountTogether) {
    const TemporaryDirectory directory;
    constexpr std::uint64_t kLimit = 400000;
    std::vector<pid_t> writers;
    for (int writer = 0; writer < 6; ++writer) {
        writers.push_back(start_child([&] {
            if (!enter_mount_namespace() || !mount_tmpfs("/dev/shm", "size=64k")) return kCantMount;
            DiskCache cache({directory.path() / "cache", kLimit});
            for (int i = 0; i < 60; ++i) {
                if (!store(cache, std::to_string(writer) + "-" + std::to_string(i), 4000).stored)
                    return fail_in_child(cache.problem());
            }
            return 0;
        }));
    }
    for (const pid_t writer : writers) {
        const int status = wait_for(writer);
        KILN_REQUIRE_OR_SKIP("mounts", status != kCantMount, "this user may not mount a tmpfs");
        EXPECT_EQ(status, 0);
    }
    const DiskCache cache({directory.path() / "cache", kLimit});
    std::string damage;
    const auto state = parse_state(*read_text_if_exists(directory.path() / "cache" / "v1" / "state"), damage);
    EXPECT_EQ(state.entry_bytes, cache.usage().bytes);
    EXPECT_LE(cache.usage().bytes, kLimit);
}

TEST(DiskStorage, ADirectoryThatCantBeWrittenTo) {
    const TemporaryDirectory directory;
    give_to_plain_user(directory.path());
    EXPECT_EQ(in_child([&] {
                  become_plain_user();
                  const path home = directory.path() / "home";
                  const path place = home / "cache";
                  {
                      DiskCache cache({place});
                      if (!store(cache, "a").stored) return fail_in_child(cache.problem());
                  }
                  const auto shard = DiskCache({place}).entry_path(key_of("a").digest).parent_path();
                  for (const auto& locked : {place, place / "v1", place / "v1" / "tmp", shard}) {
                      ::chmod(locked.c_str(), 0500);
                      DiskCache cache({place});
                      if (locked == place && cache.problem().find("Permission denied") == std::string::npos)
                          return fail_in_child("not said at the start: " + cache.problem());
                      if (!cache.find(key_of("a")).binary) return fail_in_child("look-ups stop");
                      if (locked != place) {  // else v1 is still open to stores
                          if (store(cache, locked == place / "v1" ? "new" : "a").stored)
                              return fail_in_child("stored in " + locked.string());
                          if (cache.problem().find("Permission denied") == std::string::npos)
                              return fail_in_child("unclear: " + cache.problem());
                      }
                      ::chmod(locked.c_str(), 0700);
                      if (!store(cache, "a").stored || !cache.problem().empty())
                          return fail_in_child("it does not recover: " + cache.problem());
                  }
                  // An unwritable home.
                  ::chmod(home.c_str(), 0500);
                  DiskCache cache({home / "other" / "cache"});
                  if (cache.readable() || cache.problem().find("can't be made") == std::string::npos)
                      return fail_in_child("unclear: " + cache.problem());
                  if (store(cache, "a").stored || cache.find(key_of("a")).binary) return fail_in_child("?");
                  ::chmod(home.c_str(), 0700);
                  return cache.readable() && store(cache, "a").stored ? 0 : fail_in_child(cache.problem());
              }),
              0);
}

TEST(DiskStorage, ADirectoryThatCantBeReadIsAProblem) {
    const TemporaryDirectory directory;
    give_to_plain_user(directory.path());
    EXPECT_EQ(in_child([&] {
                  become_plain_user();
                  DiskCache cache({directory.path() / "cache"});
                  if (!store(cache, "a").stored) return fail_in_child(cache.problem());
                  const auto file = cache.entry_path(key_of("a").digest);
                  ::chmod(file.c_str(), 0);
                  const auto found = cache.find(key_of("a"));
                  if (found.binary || found.rejected.find("Permission denied") == std::string::npos)
                      return fail_in_child("unclear: " + found.rejected);
                  ::chmod(cache.directory().c_str(), 0);
                  if (cache.find(key_of("a")).binary || cache.readable() || cache.problem().empty())
                      return fail_in_child("not noticed");
                  ::chmod(cache.directory().c_str(), 0700);
                  return 0;
              }),
              0);
}

TEST(DiskStorage, AVanishedDirectoryIsMadeAgain) {
    const TemporaryDirectory directory;
    const path place = directory.path() / "deep" / "cache";
    DiskCache cache({place});
    ASSERT_TRUE(store(cache, "a").stored);
    Counters counters;
    counters.misses = 1;
    for (const auto& gone : {place.parent_path(), place / "v1", place / "v1" / "tmp", path_of(cache, "a"),
                             path_of(cache, "a").parent_path()}) {
        std::filesystem::remove_all(gone);
        EXPECT_EQ(cache.find(key_of("a")).rejected, "") << gone;
        EXPECT_TRUE(cache.readable());
        EXPECT_NO_THROW(cache.items());
        EXPECT_NO_THROW(cache.prune(0));
        EXPECT_TRUE(cache.verify(true).damaged.empty()) << gone;
        cache.add(counters);
        EXPECT_TRUE(store(cache, "a").stored) << gone << ": " << cache.problem();
        EXPECT_TRUE(cache.find(key_of("a")).binary) << gone;
        EXPECT_EQ(cache.problem(), "");
    }
    std::filesystem::remove_all(place.parent_path());
    cache.add(counters);
    EXPECT_FALSE(std::filesystem::exists(place)) << "counters made the directory again";
}

TEST(DiskStorage, AFileThatIsRemovedInTheMakingIsMadeAgain) {
    const TemporaryDirectory directory;
    const path place = directory.path() / "cache";
    DiskCache cache({place});
    for (const auto& gone : {place / "v1" / "tmp", place / "v1", place}) {
        ASSERT_TRUE(store(cache, "other").stored);
        auto lock = lock_of(cache);
        ASSERT_TRUE(lock);
        // It has written its file, and waits for the lock, when everything goes.
        std::thread writer([&] { EXPECT_TRUE(store(cache, "a", 5000).stored) << cache.problem(); });
        while (count_temporaries(cache) == 0) std::this_thread::yield();
        std::filesystem::remove_all(gone);
        lock.reset();
        writer.join();
        EXPECT_TRUE(cache.find(key_of("a")).binary) << gone;
        EXPECT_EQ(count_temporaries(cache), 0u);
    }
}

TEST(DiskStorage, ALockThatIsNotGivenBackDelaysAStoreButDoesNotPreventIt) {
    const TemporaryDirectory directory;
    const std::uint64_t bytes = entry_of(key_of("a"), 5000).size();
    DiskCache cache({directory.path(), bytes * 2});
    ASSERT_TRUE(store(cache, "a", 5000).stored);
    const auto lock = lock_of(cache);
    ASSERT_TRUE(lock);
    for (const std::string text : {"b", "c"}) {
        const auto before = std::chrono::steady_clock::now();
        EXPECT_TRUE(store(cache, text, 5000).stored);
        EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5));
        EXPECT_LE(cache.usage().bytes, bytes * 2);
    }
}

TEST(DiskStorage, AnotherProcessKeepsRemovingEverything) {
    const TemporaryDirectory directory;
    DiskCache cache({directory.path() / "cache"});
    const pid_t remover = start_child([&] {
        for (;;) {
            std::error_code ignored;
            std::filesystem::remove_all(directory.path() / "cache", ignored);
            ::usleep(3000);
        }
        return 0;
    });
    for (int i = 0; i < 60; ++i) {
        store(cache, "a");
        EXPECT_EQ(cache.find(key_of("a")).rejected, "");
    }
    ::kill(remover, SIGKILL);
    wait_for(remover);
    EXPECT_TRUE(store(cache, "a").stored);
    EXPECT_EQ(cache.problem(), "");
    EXPECT_TRUE(cache.verify(true).damaged.empty());
}

}  // namespace
}  // namespace kiln
