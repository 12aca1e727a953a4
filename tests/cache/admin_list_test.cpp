// SPDX-License-Identifier: Apache-2.0
//
// Cache: what is listed and shown, keys by their first digits, and directories that can't be used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "admin_support.h"
#include "rejected.h"
#include "scoped_variable.h"

namespace kiln {
namespace {

namespace admin = test::admin;

using test::rejected;
using testing::HasSubstr;
using testing::IsEmpty;
using AdminList = admin::AdminFixture;

std::vector<std::string> keys_of(const std::vector<CacheEntry>& entries) {
    std::vector<std::string> keys;
    for (const auto& entry : entries) keys.push_back(entry.key);
    return keys;
}

TEST_F(AdminList, EntriesAreListedWithTheirParticularsMostRecentlyUsedFirst) {
    const auto keys = fill(1, 3);
    const Cache cache(options());
    EXPECT_EQ(cache.directory(), home.path() / "cache");
    const auto entries = cache.entries();
    ASSERT_THAT(keys_of(entries), testing::ElementsAre(keys[0].digest, keys[1].digest, keys[2].digest));
    const auto& second = entries[1];
    EXPECT_EQ(second.variant, "axpy A=2 T=float");
    EXPECT_EQ(second.kernel, "axpy");
    EXPECT_EQ(second.backend, Backend::cuda);
    EXPECT_EQ(second.arch, "sm_90a");
    EXPECT_EQ(second.kind, BinaryKind::cubin);
    EXPECT_EQ(second.compiler, "NVRTC 13.0");
    EXPECT_EQ(second.compile_ms, 2);
    EXPECT_EQ(second.bytes, admin::entry_of(keys[1], 2).size());
    const auto age = std::chrono::system_clock::now() - second.last_used.value();
    EXPECT_GT(age, std::chrono::seconds(19));
    EXPECT_LT(age, std::chrono::seconds(80));

    const auto usage = cache.usage();
    EXPECT_EQ(usage.entries, 3u);
    EXPECT_EQ(usage.bytes, entries[0].bytes + entries[1].bytes + entries[2].bytes);
    EXPECT_EQ(usage.limit_bytes, std::uint64_t{1} << 30);
}

TEST_F(AdminList, OneThatWasMovedFromIsRejected) {
    fill(1, 1);
    Cache cache(options());
    const Cache moved(std::move(cache));
    EXPECT_EQ(moved.usage().entries, 1u);
    // NOLINTNEXTLINE(bugprone-use-after-move): what is tested
    EXPECT_THAT(rejected([&] { cache.usage(); }), HasSubstr("moved from"));
    EXPECT_THAT(rejected([&] { cache.push(); }), HasSubstr("moved from"));
}

TEST_F(AdminList, ListingMarksNothingAsUsed) {
    fill(1, 2);
    const Cache cache(options());
    const auto before = cache.entries();
    cache.entry(before[1].key);
    cache.pack(home.path() / "pack");
    const auto after = cache.entries();
    EXPECT_EQ(keys_of(after), keys_of(before));
    EXPECT_EQ(after[1].last_used, before[1].last_used);
}

TEST_F(AdminList, DamagedAndForeignFilesAreLeftOutAndVerifyReportsAndRemovesThem) {
    const auto keys = fill(1, 3);
    const auto damaged = disk().entry_path(keys[1].digest);
    admin::change_byte(damaged, 700);
    const auto foreign = damaged.parent_path() / "README";
    write_text(foreign, "hello");
    Cache cache(options());
    EXPECT_THAT(keys_of(cache.entries()), testing::ElementsAre(keys[0].digest, keys[2].digest));
    EXPECT_THAT(rejected<CacheError>([&] { cache.entry(keys[1].digest); }),
                testing::AllOf(HasSubstr(damaged.string()), HasSubstr("checksum")));

    auto found = cache.verify();
    EXPECT_EQ(found.sound, 2u);
    std::set<std::filesystem::path> files;
    for (const auto& one : found.damaged) files.insert(one.file);
    EXPECT_THAT(files, testing::ElementsAre(std::min(damaged, foreign), std::max(damaged, foreign)));
    EXPECT_TRUE(std::filesystem::exists(damaged));
    cache.verify(true);
    EXPECT_FALSE(std::filesystem::exists(damaged));
    EXPECT_THAT(cache.verify().damaged, IsEmpty());
}

TEST_F(AdminList, AnEntryIsFoundByItsFirstDigits) {
    const auto keys = fill(1, 20);
    const Cache cache(options());
    const auto details = cache.entry(keys[6].digest.substr(0, 10));
    EXPECT_EQ(details.key.digest, keys[6].digest);
    EXPECT_EQ(details.key.text, keys[6].text);
    EXPECT_EQ(details.log, "log of 7");
    EXPECT_EQ(details.place, disk().entry_path(keys[6].digest).string());
    EXPECT_EQ(details.summary.variant, "axpy A=7 T=float");
    EXPECT_TRUE(details.summary.last_used);
    std::string shouted = keys[6].digest;
    for (char& c : shouted) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    EXPECT_EQ(cache.entry(shouted).key.digest, keys[6].digest);
}

TEST_F(AdminList, DigitsThatNameNoneOrSeveralAreRejectedWithHelp) {
    // Two keys that share their first four digits turn up soon enough.
    auto cache_on_disk = disk();
    std::map<std::string, std::string> by_start;
    std::string first, second;
    for (int a = 1; second.empty() && a <= 20000; ++a) {
        admin::Recipe recipe;
        recipe.a = a;
        const auto key = admin::key_of(recipe);
        const auto [place, is_new] = by_start.emplace(key.digest.substr(0, 4), key.digest);
        if (is_new) continue;
        first = place->second;
        second = key.digest;
        ASSERT_TRUE(cache_on_disk.store(second, admin::entry_of(key)).stored);
        for (int b = 1; b < a; ++b) {
            recipe.a = b;
            const auto other = admin::key_of(recipe);
            if (other.digest != first) continue;
            ASSERT_TRUE(cache_on_disk.store(first, admin::entry_of(other)).stored);
        }
    }
    const Cache cache(options());
    ASSERT_EQ(cache.entries().size(), 2u);
    const auto several = rejected<UsageError>([&] { cache.entry(first.substr(0, 4)); });
    EXPECT_THAT(several, HasSubstr("2 entries start with " + first.substr(0, 4)));
    EXPECT_THAT(several, HasSubstr(first.substr(0, 12) + " (axpy A="));
    EXPECT_THAT(several, HasSubstr(second.substr(0, 12) + " (axpy A="));

    EXPECT_THAT(rejected<UsageError>([&] { cache.entry(first.substr(0, 3)); }), HasSubstr("too short"));
    EXPECT_THAT(rejected<UsageError>([&] { cache.entry(""); }), HasSubstr("not a key"));
    EXPECT_THAT(rejected<UsageError>([&] { cache.entry("gemm"); }), HasSubstr("'gemm' is not a key"));
    EXPECT_THAT(rejected<UsageError>([&] { cache.entry(first + "0"); }), HasSubstr("not a key"));
    EXPECT_THAT(rejected<UsageError>([&] { cache.entry(std::string(64, '0')); }),
                testing::AllOf(HasSubstr("there is no entry 000"), HasSubstr("2 entries")));
}

TEST_F(AdminList, PruneAndClearTakeAway) {
    const auto keys = fill(1, 10);
    Cache cache(options());
    const auto bytes = cache.usage().bytes;
    const auto pruned = cache.prune(bytes / 2);
    EXPECT_GE(pruned.entries, 5u);
    EXPECT_LE(cache.usage().bytes, bytes / 2);
    EXPECT_EQ(cache.entries().front().key, keys[0].digest) << "the most recently used went";
    const auto rest = cache.usage().entries;
    DiskCache disk({home.path() / "cache"});
    for (const auto memory : {DiskCache::Memory::identities, DiskCache::Memory::includes})
        disk.write_memory(memory, "remembered");
    EXPECT_THAT(cache.verify().damaged, IsEmpty());
    EXPECT_EQ(cache.clear().entries, rest);
    for (const auto memory : {DiskCache::Memory::identities, DiskCache::Memory::includes})
        EXPECT_EQ(disk.read_memory(memory), "");
    EXPECT_THAT(cache.entries(), IsEmpty());
    EXPECT_EQ(cache.usage().bytes, 0u);
}

TEST_F(AdminList, ADirectoryThatCantBeUsedIsAnErrorThatNamesIt) {
    write_text(home.path() / "cache", "a file");
    EXPECT_THAT(rejected<CacheError>([&] { Cache{options()}; }), HasSubstr((home.path() / "cache").string()));
}

TEST_F(AdminList, NoDirectoryAtAllIsAnErrorThatSaysWhichVariablesNameOne) {
    const test::ScopedVariable cache_dir("KILN_CACHE_DIR", ""), xdg("XDG_CACHE_HOME", ""),
        no_home("HOME", "");
    CacheOptions nowhere;
    nowhere.remote = RemoteOptions{};
    EXPECT_THAT(rejected<CacheError>([&] { Cache{nowhere}; }), HasSubstr("KILN_CACHE_DIR"));
}

TEST_F(AdminList, TheEnvironmentDecidesWhatOptionsLeaveOpen) {
    fill(1, 1);
    const test::ScopedVariable directory("KILN_CACHE_DIR", (home.path() / "cache").string());
    const test::ScopedVariable remote("KILN_REMOTE", "");
    {
        const test::ScopedVariable limit("KILN_CACHE_LIMIT", "3MiB");
        EXPECT_EQ(Cache().usage().limit_bytes, 3u << 20);
        EXPECT_EQ(Cache().usage().entries, 1u);
        CacheOptions chosen;
        chosen.limit_bytes = 77;
        EXPECT_EQ(Cache(chosen).usage().limit_bytes, 77u);
    }
    const test::ScopedVariable limit("KILN_CACHE_LIMIT", "plenty");
    EXPECT_THAT(rejected<UsageError>([] { Cache(); }), HasSubstr("plenty"));
}

TEST_F(AdminList, AWrongRemoteIsAUsageError) {
    auto wrong = options();
    wrong.remote->url = "http://somewhere";
    EXPECT_THROW(Cache{wrong}, UsageError);
    const test::ScopedVariable url("KILN_REMOTE", "redis://127.0.0.1:1");
    const test::ScopedVariable mode("KILN_REMOTE_MODE", "sometimes");
    wrong.remote.reset();
    EXPECT_THAT(rejected<UsageError>([&] { Cache{wrong}; }), HasSubstr("sometimes"));
}

}  // namespace
}  // namespace kiln
