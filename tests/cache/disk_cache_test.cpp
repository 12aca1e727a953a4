// SPDX-License-Identifier: Apache-2.0
//
// The disk tier: hits, misses, damage, and directories that can't be used.
#include "cache/disk_cache.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>
#include <vector>

#include "base/file.h"
#include "cache/build_key.h"
#include "cache/entry.h"

namespace kiln {
namespace {

BuildKey key_of(const std::string& text) {
    return make_build_key({Backend::host, "x86-64-v3", {}}, "compiler", {}, {"f.cu", "f", text, {}});
}

Binary binary_of(std::size_t bytes, unsigned char fill) {
    Binary binary;
    binary.kind = BinaryKind::shared_object;
    binary.entry = "f";
    binary.bytes.assign(bytes, std::byte{fill});
    return binary;
}

std::size_t count_files(const std::filesystem::path& directory) {
    std::size_t count = 0;
    for (const auto& item : std::filesystem::recursive_directory_iterator(directory))
        count += item.is_regular_file();
    return count;
}

TEST(DiskCache, StoresAndFinds) {
    const TemporaryDirectory directory;
    DiskCache cache(directory.path() / "deep" / "cache");
    EXPECT_EQ(cache.problem(), "");
    EXPECT_FALSE(cache.find(key_of("a")).binary);
    ASSERT_TRUE(cache.store(key_of("a"), binary_of(100, 1)));
    const auto found = DiskCache(directory.path() / "deep" / "cache").find(key_of("a"));
    ASSERT_TRUE(found.binary);
    EXPECT_EQ(found.binary->bytes, binary_of(100, 1).bytes);
    EXPECT_FALSE(cache.find(key_of("b")).binary);
    EXPECT_EQ(count_files(directory.path()), 1u) << "a temporary file was left";

    struct stat status;
    ASSERT_EQ(::stat((directory.path() / "deep" / "cache").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777u, 0700u);
}

TEST(DiskCache, DamageIsAMissWithAReason) {
    const TemporaryDirectory directory;
    DiskCache cache(directory.path());
    const auto key = key_of("a");
    ASSERT_TRUE(cache.store(key, binary_of(100, 1)));
    std::fstream(cache.entry_path(key), std::ios::in | std::ios::out | std::ios::binary).seekp(300).put('!');
    const auto found = cache.find(key);
    EXPECT_FALSE(found.binary);
    EXPECT_NE(found.rejected.find("checksum"), std::string::npos) << found.rejected;

    ASSERT_TRUE(cache.store(key, binary_of(100, 1)));
    EXPECT_TRUE(cache.find(key).binary) << "a damaged entry was not replaced";
}

TEST(DiskCache, AnEntryOfAnotherKeyInThisPlaceIsNotServed) {
    const TemporaryDirectory directory;
    DiskCache cache(directory.path());
    ASSERT_TRUE(cache.store(key_of("a"), binary_of(100, 1)));
    const auto wrong_place = cache.entry_path(key_of("b"));
    std::filesystem::create_directories(wrong_place.parent_path());
    std::filesystem::copy_file(cache.entry_path(key_of("a")), wrong_place);
    const auto found = cache.find(key_of("b"));
    EXPECT_FALSE(found.binary);
    EXPECT_NE(found.rejected.find("other ingredients"), std::string::npos) << found.rejected;
}

TEST(DiskCache, AFileInPlaceOfTheDirectoryIsAProblemNotACrash) {
    const TemporaryDirectory directory;
    const auto file = directory.path() / "file";
    write_text(file, "something else");
    for (const auto& place : {file, file / "below"}) {
        DiskCache cache(place);
        EXPECT_NE(cache.problem().find(file.string()), std::string::npos) << cache.problem();
        EXPECT_FALSE(cache.store(key_of("a"), binary_of(1, 1)));
        EXPECT_FALSE(cache.find(key_of("a")).binary);
    }
    EXPECT_EQ(read_text_if_exists(file), "something else");
}

TEST(DiskCache, AVanishedDirectoryIsMadeAgain) {
    const TemporaryDirectory directory;
    DiskCache cache(directory.path() / "cache");
    std::filesystem::remove_all(directory.path() / "cache");
    EXPECT_FALSE(cache.find(key_of("a")).binary);
    EXPECT_TRUE(cache.store(key_of("a"), binary_of(1, 1)));
    EXPECT_TRUE(cache.find(key_of("a")).binary);
}

TEST(DiskCache, AnEntryThatIsADirectoryIsAMiss) {
    const TemporaryDirectory directory;
    DiskCache cache(directory.path());
    std::filesystem::create_directories(cache.entry_path(key_of("a")) / "x");
    EXPECT_FALSE(cache.find(key_of("a")).binary);
    EXPECT_FALSE(cache.store(key_of("a"), binary_of(1, 1)));
    EXPECT_NE(cache.problem(), "");
}

TEST(DiskCache, WritersKilledAtAnyInstantLeaveWholeEntries) {
    const TemporaryDirectory directory;
    const DiskCache cache(directory.path());
    const auto key = key_of("a");
    std::size_t seen = 0;
    for (int round = 0; round < 60; ++round) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            DiskCache writer(directory.path());
            for (unsigned char fill = 0;; ++fill) writer.store(key, binary_of(50000, fill));
        }
        ::usleep(static_cast<useconds_t>(500 + round * 97 % 3000));
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        const auto found = cache.find(key);
        EXPECT_EQ(found.rejected, "");
        if (!found.binary) continue;
        ++seen;
        ASSERT_EQ(found.binary->bytes.size(), 50000u);
        EXPECT_EQ(found.binary->bytes.front(), found.binary->bytes.back());
    }
    EXPECT_GT(seen, 0u);
}

TEST(DiskCache, ReadersBesideWritersSeeWholeEntries) {
    const TemporaryDirectory directory;
    DiskCache cache(directory.path());
    const auto key = key_of("a");
    ASSERT_TRUE(cache.store(key, binary_of(20000, 0)));
    std::vector<std::thread> threads;
    for (int writer = 0; writer < 2; ++writer) {
        threads.emplace_back([&] {
            for (int i = 0; i < 100; ++i)
                EXPECT_TRUE(cache.store(key, binary_of(20000, static_cast<unsigned char>(i))));
        });
    }
    for (int reader = 0; reader < 2; ++reader) {
        threads.emplace_back([&] {
            for (int i = 0; i < 500; ++i) {
                const auto found = cache.find(key);
                EXPECT_EQ(found.rejected, "");
                ASSERT_TRUE(found.binary);
                EXPECT_EQ(found.binary->bytes.front(), found.binary->bytes.back());
            }
        });
    }
    for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace kiln
