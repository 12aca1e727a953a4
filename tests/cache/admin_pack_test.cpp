// SPDX-License-Identifier: Apache-2.0
//
// Cache: packs written from a cache, read back into another, and what is wrong with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "admin_support.h"
#include "cache/seed_pack.h"
#include "rejected.h"

namespace kiln {
namespace {

namespace admin = test::admin;

using test::rejected;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct AdminPack : admin::AdminFixture {
    std::filesystem::path file = home.path() / "kernels.pack";
};

// Where the bytes of an entry lie in a pack, found by its end.
std::streamoff end_of_entry(const std::filesystem::path& pack, const Bytes& entry) {
    const auto all = read_bytes_if_exists(pack).value();
    const auto place = std::search(all.begin(), all.end(), entry.begin(), entry.end());
    EXPECT_NE(place, all.end());
    return place - all.begin() + static_cast<std::streamoff>(entry.size());
}

TEST_F(AdminPack, AThousandEntriesGoThroughAPackUnharmed) {
    const auto keys = fill(1, 1000);
    const Cache cache(options());
    const auto packed = cache.pack(file);
    EXPECT_EQ(packed.entries, 1000u);
    EXPECT_EQ(packed.bytes, std::filesystem::file_size(file));
    EXPECT_THAT(packed.refused, IsEmpty());
    EXPECT_EQ(list_pack(file).size(), 1000u);

    // Nearly all of it is there already, since every store is synced.
    fill(31, 1000, "other");
    Cache other(options("other"));
    const auto taken = other.unpack(file);
    EXPECT_EQ(taken.entries, 30u);
    EXPECT_EQ(taken.already_there, 970u);
    EXPECT_EQ(other.usage().bytes, cache.usage().bytes);
    EXPECT_EQ(other.verify().sound, 1000u);
    const auto again = other.unpack(file);
    EXPECT_EQ(again.entries, 0u);
    EXPECT_EQ(again.already_there, 1000u);
    auto there = disk("other");
    std::string reason;
    EXPECT_EQ(there.read(keys[20].digest, reason), admin::entry_of(keys[20], 21));
}

TEST_F(AdminPack, ChosenKeysAreTakenOnceEach) {
    const auto keys = fill(1, 5);
    const Cache cache(options());
    const auto packed =
        cache.pack(file, {keys[1].digest, keys[3].digest.substr(0, 12), keys[1].digest.substr(0, 12)});
    EXPECT_EQ(packed.entries, 2u);
    const auto listed = list_pack(file);
    ASSERT_EQ(listed.size(), 2u);
    for (const auto& entry : listed) {
        EXPECT_FALSE(entry.last_used);
        EXPECT_TRUE(entry.variant == "axpy A=2 T=float" || entry.variant == "axpy A=4 T=float")
            << entry.variant;
        EXPECT_EQ(entry.arch, "sm_90a");
    }
    EXPECT_THROW(cache.pack(file, {"0000000000"}), UsageError);
    EXPECT_EQ(list_pack(file).size(), 2u) << "the old pack is gone";
}

TEST_F(AdminPack, DamagedEntriesAreNamedAndNotPacked) {
    const auto keys = fill(1, 3);
    const auto damaged = disk().entry_path(keys[2].digest);
    admin::change_byte(damaged, 600);
    const auto packed = Cache(options()).pack(file);
    EXPECT_EQ(packed.entries, 2u);
    EXPECT_THAT(packed.refused, ElementsAre(HasSubstr(damaged.string())));
    EXPECT_EQ(list_pack(file).size(), 2u);
}

TEST_F(AdminPack, NoPackIsWrittenOfNothingSound) {
    const Cache cache(options());
    EXPECT_THAT(rejected<CacheError>([&] { cache.pack(file); }), HasSubstr("there is no entry"));
    EXPECT_FALSE(std::filesystem::exists(file));

    const auto keys = fill(1, 2);
    cache.pack(file);
    for (const auto& key : keys) admin::change_byte(disk().entry_path(key.digest), 600);
    EXPECT_THAT(rejected<CacheError>([&] { cache.pack(file); }), HasSubstr("no entry is sound"));
    EXPECT_EQ(list_pack(file).size(), 2u) << "the old pack is gone";
    EXPECT_EQ(admin::count_files(home.path()), 3) << "something half written is left";
}

TEST_F(AdminPack, APlaceThatCantBeWrittenIsAnErrorThatNamesIt) {
    fill(1, 1);
    const auto nowhere = home.path() / "missing" / "kernels.pack";
    EXPECT_THAT(rejected<CacheError>([&] { Cache(options()).pack(nowhere); }), HasSubstr(nowhere.string()));
}

TEST_F(AdminPack, ADamagedEntryOfAPackIsRejectedAndTheOthersAreTaken) {
    const auto keys = fill(1, 3);
    Cache(options()).pack(file);
    admin::change_byte(file, end_of_entry(file, admin::entry_of(keys[1], 2)) - 30);
    const auto named = HasSubstr(keys[1].digest.substr(0, 12));

    Cache other(options("other"));
    const auto taken = other.unpack(file);
    EXPECT_EQ(taken.entries, 2u);
    EXPECT_THAT(taken.refused,
                ElementsAre(testing::AllOf(named, HasSubstr(file.string()), HasSubstr("checksum"))));
    EXPECT_EQ(other.verify().sound, 2u);
    EXPECT_THAT(rejected<CacheError>([&] { list_pack(file); }), named);
}

TEST_F(AdminPack, AnEntryUnderTheDigestOfAnotherIsRejected) {
    const auto keys = fill(1, 2);
    write_pack(file, {keys[0].digest}, [&](const std::string&) { return admin::entry_of(keys[1], 2); });
    Cache other(options("other"));
    const auto taken = other.unpack(file);
    EXPECT_EQ(taken.entries, 0u);
    EXPECT_EQ(taken.refused.size(), 1u);
    EXPECT_THAT(other.entries(), IsEmpty());
}

TEST_F(AdminPack, ADamagedEntryHereIsReplacedByThePacks) {
    const auto keys = fill(1, 2);
    Cache cache(options());
    cache.pack(file);
    admin::change_byte(disk().entry_path(keys[0].digest), 600);
    const auto taken = cache.unpack(file);
    EXPECT_EQ(taken.entries, 1u);
    EXPECT_EQ(taken.already_there, 1u);
    EXPECT_EQ(cache.verify().sound, 2u);
}

TEST_F(AdminPack, AFileThatIsNoPackIsAnErrorThatNamesIt) {
    write_text(file, "this is no pack");
    Cache cache(options());
    EXPECT_THAT(rejected<CacheError>([&] { cache.unpack(file); }), HasSubstr(file.string()));
    EXPECT_THAT(rejected<CacheError>([&] { list_pack(file); }), HasSubstr(file.string()));
    EXPECT_THAT(rejected<CacheError>([&] { cache.unpack(home.path() / "missing"); }), HasSubstr("missing"));
}

TEST_F(AdminPack, UnpackingStopsWhereTheCacheIsFullInsteadOfPushingOutWhatIsThere) {
    const auto keys = fill(1, 8);
    Cache(options()).pack(file);
    auto small = options("small");
    const auto entry_bytes = admin::entry_of(keys[0], 1).size();
    small.limit_bytes = entry_bytes * 3 + 100;
    admin::Recipe mine;
    mine.t = "double";
    const auto my_key = admin::key_of(mine);
    DiskCache there(DiskOptions{home.path() / "small", *small.limit_bytes});
    ASSERT_TRUE(there.store(my_key.digest, admin::entry_of(my_key)).stored);

    Cache cache(small);
    const auto taken = cache.unpack(file);
    EXPECT_EQ(taken.entries, 2u);
    EXPECT_THAT(taken.refused,
                ElementsAre(testing::AllOf(HasSubstr("the last 6 entries"), HasSubstr("full"))));
    EXPECT_LE(cache.usage().bytes, *small.limit_bytes);
    EXPECT_EQ(cache.entry(my_key.digest).key.text, my_key.text) << "what was there has gone";
}

}  // namespace
}  // namespace kiln
