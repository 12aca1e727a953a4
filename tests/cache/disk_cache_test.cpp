// SPDX-License-Identifier: Apache-2.0
//
// The disk tier: hits, misses, damage, concurrent readers and writers, counters.
#include "cache/disk_cache.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>
#include <vector>

#include "disk_support.h"

namespace kiln {
namespace {

using namespace test::disk;

std::string text_at(const std::filesystem::path& path) { return read_text_if_exists(path).value_or(""); }

TEST(DiskCache, StoresAndFinds) {
    const TemporaryDirectory directory;
    const auto place = directory.path() / "deep" / "cache";
    DiskCache cache({place});
    EXPECT_EQ(cache.problem(), "");
    EXPECT_TRUE(cache.readable());
    const auto missing = cache.find(key_of("a"));
    EXPECT_FALSE(missing.binary);
    EXPECT_EQ(missing.rejected + missing.place, "");
    ASSERT_TRUE(store(cache, "a").stored) << cache.problem();

    const auto found = DiskCache({place}).find(key_of("a"));
    ASSERT_TRUE(found.binary);
    EXPECT_EQ(found.binary->bytes, binary_of(100, 1).bytes);
    EXPECT_EQ(found.entry, entry_of(key_of("a"), 100));
    EXPECT_EQ(found.place, path_of(cache, "a").string());
    EXPECT_GE(found.binary->bytes.data(), found.entry.data()) << "the binary was copied";
    EXPECT_LT(found.binary->bytes.data(), found.entry.end()) << "the binary was copied";
    EXPECT_FALSE(cache.find(key_of("b")).binary);
    EXPECT_EQ(count_files(directory.path()), 2u) << "there should be the entry and the state";

    for (const auto& path : {place, place / "v1", place / "v1" / "tmp", path_of(cache, "a").parent_path()}) {
        struct stat status;
        ASSERT_EQ(::stat(path.c_str(), &status), 0) << path;
        EXPECT_EQ(status.st_mode & 07777u, 0700u) << path;
    }
    struct stat status;
    ASSERT_EQ(::stat(path_of(cache, "a").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777u, 0600u);
}

TEST(DiskCache, EveryFlippedByteAndEveryTruncationIsAMissWithAReason) {
    const TemporaryDirectory directory;
    DiskCache cache({directory.path()});
    const auto key = key_of("a");
    const auto path = cache.entry_path(key.digest);
    const auto entry = entry_of(key, 300);
    ASSERT_TRUE(cache.store(key.digest, entry).stored);
    const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    const auto expect_rejected = [&](std::size_t at) {
        const auto found = cache.find(key);
        ASSERT_FALSE(found.binary) << at;
        ASSERT_TRUE(found.rejected.starts_with(path.string() + " was not used: "))
            << at << ": " << found.rejected;
    };
    for (std::size_t i = 0; i < entry.size(); ++i) {
        for (const std::byte flipped : {entry[i] ^ std::byte(1u << i % 8), ~entry[i]}) {
            ASSERT_EQ(::pwrite(file.value(), &flipped, 1, static_cast<off_t>(i)), 1);
            expect_rejected(i);
        }
        ASSERT_EQ(::pwrite(file.value(), &entry[i], 1, static_cast<off_t>(i)), 1);
    }
    EXPECT_TRUE(cache.find(key).binary);
    for (std::size_t length = entry.size(); length-- > 0;) {
        ASSERT_EQ(::ftruncate(file.value(), static_cast<off_t>(length)), 0);
        expect_rejected(length);
    }

    ASSERT_TRUE(cache.store(key.digest, entry).stored);
    EXPECT_TRUE(cache.find(key).binary) << "a damaged entry was not replaced";
}

TEST(DiskCache, AnEntryOfAnotherKeyInThisPlaceIsNotServed) {
    const TemporaryDirectory directory;
    DiskCache cache({directory.path()});
    ASSERT_TRUE(store(cache, "a").stored);
    ASSERT_TRUE(store(cache, "b").stored);
    std::filesystem::rename(path_of(cache, "a"), path_of(cache, "b"));
    const auto found = cache.find(key_of("b"));
    EXPECT_FALSE(found.binary);
    EXPECT_NE(found.rejected.find("other ingredients"), std::string::npos) << found.rejected;
    std::string reason;
    EXPECT_TRUE(cache.read(key_of("b").digest, reason).empty());
    EXPECT_NE(reason.find("other ingredients"), std::string::npos) << reason;
}

TEST(DiskCache, AFileInPlaceOfTheDirectoryIsAProblemNotACrash) {
    const TemporaryDirectory directory;
    const auto file = directory.path() / "file";
    write_text(file, "something else");
    for (const auto& place : {file, file / "below"}) {
        DiskCache cache({place});
        EXPECT_NE(cache.problem().find(file.string()), std::string::npos) << cache.problem();
        EXPECT_FALSE(cache.readable());
        EXPECT_FALSE(store(cache, "a").stored);
        EXPECT_FALSE(cache.find(key_of("a")).binary);
        EXPECT_THROW(cache.items(), CacheError);
    }
    EXPECT_EQ(text_at(file), "something else");
    DiskCache cache({file});
    std::filesystem::remove(file);
    EXPECT_TRUE(cache.readable()) << "a problem that has gone is still there: " << cache.problem();
    EXPECT_TRUE(store(cache, "a").stored);
    EXPECT_EQ(cache.problem(), "");
}

TEST(DiskCache, AnEntryThatIsADirectoryIsAMiss) {
    const TemporaryDirectory directory;
    DiskCache cache({directory.path()});
    ASSERT_TRUE(store(cache, "a").stored);
    std::filesystem::remove(path_of(cache, "a"));
    std::filesystem::create_directories(path_of(cache, "a") / "x");
    std::filesystem::permissions(path_of(cache, "a"), std::filesystem::perms::owner_all);
    const auto found = cache.find(key_of("a"));
    EXPECT_FALSE(found.binary);
    EXPECT_NE(found.rejected.find("not a regular file"), std::string::npos) << found.rejected;
    EXPECT_FALSE(store(cache, "a").stored);
    EXPECT_NE(cache.problem(), "");
    EXPECT_EQ(count_temporaries(cache), 0u);
    EXPECT_TRUE(store(cache, "b").stored);
    EXPECT_EQ(cache.problem(), "") << "a problem of one entry sticks";
}

TEST(DiskCache, ReadersConcurrentWithWritersSeeWholeEntries) {
    const TemporaryDirectory directory;
    DiskCache cache({directory.path()});
    const auto key = key_of("a");
    ASSERT_TRUE(store(cache, "a", 20000, 0).stored);
    std::vector<std::thread> threads;
    for (int writer = 0; writer < 2; ++writer) {
        threads.emplace_back([&] {
            for (int i = 0; i < 50; ++i)
                EXPECT_TRUE(store(cache, "a", 20000, static_cast<unsigned char>(i)).stored);
        });
    }
    for (int reader = 0; reader < 2; ++reader) {
        threads.emplace_back([&] {
            for (int i = 0; i < 500; ++i) {
                const auto found = cache.find(key);
                EXPECT_EQ(found.rejected, "");
                ASSERT_TRUE(found.binary);
                EXPECT_EQ(found.binary->bytes[0], found.binary->bytes[19999]);
            }
        });
    }
    for (auto& thread : threads) thread.join();
}

TEST(DiskCache, CountersAreSharedAndSurviveWhatTheyCan) {
    const TemporaryDirectory directory;
    Counters counters;
    counters.disk_hits = 3;
    counters.saved_ms = 1000;
    {
        DiskCache cache({directory.path()});
        cache.add(counters);
        cache.add(counters);
        EXPECT_EQ(cache.usage().counters.disk_hits, 6u);
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            DiskCache cache({directory.path()});
            for (int round = 0; round < 25; ++round) cache.add(counters);
        });
    }
    for (auto& thread : threads) thread.join();
    DiskCache cache({directory.path()});
    EXPECT_EQ(cache.usage().counters.disk_hits, 306u);
    EXPECT_EQ(cache.usage().counters.saved_ms, 102000u);

    // Damaged: what can be read of it goes on.
    const auto state = directory.path() / "v1" / "state";
    std::string text = text_at(state);
    const auto at = text.find("saved_ms");
    ASSERT_NE(at, std::string::npos);
    text[at] = '?';
    write_text(state, text);
    ASSERT_TRUE(store(cache, "a", 5000).stored);
    EXPECT_EQ(cache.usage().counters.disk_hits, 306u);
    EXPECT_EQ(cache.usage().counters.saved_ms, 0u);
}

TEST(DiskCache, AnEntryAboveTheLimitIsNotStored) {
    const TemporaryDirectory directory;
    DiskCache cache({directory.path(), 10000});
    ASSERT_TRUE(store(cache, "small", 500).stored);
    const auto large = store(cache, "large", 10001);
    EXPECT_FALSE(large.stored);
    EXPECT_NE(large.reason.find("9.8 KiB"), std::string::npos) << large.reason;
    EXPECT_EQ(cache.problem(), "");
    EXPECT_TRUE(has(cache, "small")) << "something was removed for it";
    EXPECT_FALSE(cache.store("../../x", entry_of(key_of("a"), 1)).stored);
    EXPECT_FALSE(cache.key_text("../../x"));
}

TEST(DiskCache, KeyTextIsReadWithoutTheRest) {
    const TemporaryDirectory directory;
    DiskCache cache({directory.path()});
    ASSERT_TRUE(store(cache, "a", 5000).stored);
    EXPECT_EQ(cache.key_text(key_of("a").digest), key_of("a").text);
    EXPECT_EQ(cache.key_text(key_of("b").digest), std::nullopt);
    // Damage behind it is not its business, a wrong size is.
    std::fstream(path_of(cache, "a"), std::ios::in | std::ios::out | std::ios::binary).seekp(3000).put('!');
    EXPECT_EQ(cache.key_text(key_of("a").digest), key_of("a").text);
    std::filesystem::resize_file(path_of(cache, "a"), 600);
    EXPECT_EQ(cache.key_text(key_of("a").digest), std::nullopt);
}

}  // namespace
}  // namespace kiln
