// SPDX-License-Identifier: Apache-2.0
//
// Why a key is a hit or a miss: the tier, what was rejected, the nearest entry and what differs.
#include "service/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "admin_support.h"
#include "base/stopwatch.h"
#include "redis_server.h"
#include "service/cache_setup.h"

namespace kiln {
namespace {

namespace admin = test::admin;

using test::admin::Recipe;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// "arch: sm_80 -> sm_90a" of each difference, wanted first.
std::vector<std::string> texts_of(const Explanation& explanation) {
    std::vector<std::string> texts;
    for (const auto& one : explanation.differences)
        texts.push_back(one.ingredient + ": " + one.wanted + " / " + one.found);
    return texts;
}

struct Explain : admin::AdminFixture {
    Recipe plain;

    void store(const Recipe& recipe) { store(recipe, options()); }
    void store(const Recipe& recipe, const CacheOptions& where) {
        const auto key = admin::key_of(recipe);
        DiskCache cache(DiskOptions{*where.directory});
        ASSERT_TRUE(cache.store(key.digest, admin::entry_of(key)).stored);
    }
    Explanation explain(const Recipe& recipe) { return explain(recipe, options()); }
    Explanation explain(const Recipe& recipe, const CacheOptions& where) {
        return explain_key(admin::key_of(recipe), open_cache(where));
    }
    std::filesystem::path pack_of(const Recipe& recipe, const std::string& name) {
        store(recipe, options(name));
        Cache(options(name)).pack(home.path() / (name + ".pack"));
        return home.path() / (name + ".pack");
    }
};

TEST_F(Explain, NothingIsNearInAnEmptyCache) {
    const auto why = explain(plain);
    EXPECT_EQ(why.key.digest, admin::key_of(plain).digest);
    EXPECT_FALSE(why.tier);
    EXPECT_EQ(why.place, "");
    EXPECT_EQ(why.nearest_key, "");
    EXPECT_THAT(why.rejected, IsEmpty());
    EXPECT_THAT(why.differences, IsEmpty());
}

TEST_F(Explain, AHitIsFoundInItsTierAndNotMarkedAsUsed) {
    store(plain);
    const auto path = disk().entry_path(admin::key_of(plain).digest);
    admin::set_age(path, 1000);
    const auto before = std::filesystem::last_write_time(path);
    const auto why = explain(plain);
    EXPECT_EQ(why.tier, Origin::disk);
    EXPECT_EQ(why.place, path.string());
    EXPECT_THAT(why.differences, IsEmpty());
    EXPECT_EQ(std::filesystem::last_write_time(path), before);
}

TEST_F(Explain, PacksAreLookedIntoInOrder) {
    Recipe other;
    other.a = 2;
    auto with_packs = options();
    with_packs.seed_packs = {pack_of(other, "first"), pack_of(plain, "second")};
    const auto why = explain(plain, with_packs);
    EXPECT_EQ(why.tier, Origin::seed);
    EXPECT_EQ(why.place, with_packs.seed_packs[1].string());
    EXPECT_THAT(why.rejected, IsEmpty());
    EXPECT_EQ(admin::count_files(home.path() / "cache"), 0) << "explaining stored something";
}

TEST_F(Explain, TheRemoteIsLookedIntoLastAndNothingIsWrittenBack) {
    KILN_REQUIRE_REDIS();
    const test::RedisServer server;
    auto with_remote = options();
    with_remote.remote->url = server.url();
    with_remote.remote->timeout = std::chrono::seconds(10);
    store(plain, with_remote);
    Cache(with_remote).push();
    Cache(with_remote).clear();
    const auto why = explain(plain, with_remote);
    EXPECT_EQ(why.tier, Origin::remote);
    EXPECT_THAT(why.place, HasSubstr(std::to_string(server.port())));
    EXPECT_EQ(Cache(with_remote).usage().entries, 0u);
}

TEST_F(Explain, ARemoteThatDoesNotAnswerIsReported) {
    auto with_remote = options();
    with_remote.remote->url = "redis://127.0.0.1:" + std::to_string(test::free_port());
    const auto why = explain(plain, with_remote);
    EXPECT_FALSE(why.tier);
    EXPECT_THAT(why.rejected, ElementsAre(HasSubstr("127.0.0.1")));
}

TEST_F(Explain, ADamagedEntryIsReportedAndTheNextTierServes) {
    store(plain);
    const auto path = disk().entry_path(admin::key_of(plain).digest);
    admin::change_byte(path, 700);
    auto with_pack = options();
    with_pack.seed_packs = {pack_of(plain, "seed")};
    EXPECT_EQ(explain(plain, with_pack).tier, Origin::seed);
    EXPECT_THAT(explain(plain, with_pack).rejected, ElementsAre(HasSubstr(path.string())));

    const auto why = explain(plain);
    EXPECT_FALSE(why.tier);
    EXPECT_THAT(why.rejected, ElementsAre(testing::AllOf(HasSubstr(path.string()), HasSubstr("checksum"))));
}

TEST_F(Explain, ATierThatCantBeUsedIsReported) {
    write_text(home.path() / "cache", "a file");
    auto with_pack = options();
    with_pack.seed_packs = {home.path() / "missing.pack"};
    const auto why = explain(plain, with_pack);
    EXPECT_THAT(why.rejected,
                ElementsAre(HasSubstr((home.path() / "cache").string()), HasSubstr("missing.pack")));
}

// One ingredient at a time is what differs, and that one is told.
TEST_F(Explain, EachIngredientThatWasChangedIsNamed) {
    store(plain);
    const auto expect = [&](const Recipe& recipe, const auto& matcher) {
        const auto why = explain(recipe);
        EXPECT_FALSE(why.tier);
        EXPECT_EQ(why.nearest_key, admin::key_of(plain).digest);
        EXPECT_EQ(why.nearest_variant, "axpy A=1 T=float");
        EXPECT_THAT(texts_of(why), ElementsAre(matcher));
    };
    Recipe header;
    header.headers[1].text = "int g(int);\n";
    expect(header, testing::StartsWith("header yours.h: "));
    Recipe option;
    option.options.push_back("-G");
    expect(option, "option: -G / ");
    Recipe line;
    line.body.replace(line.body.find("A * x[i]"), 8, "x[i] * A");
    expect(line, "source line 10: if (i < n) y[i] = x[i] * A; / if (i < n) y[i] = A * x[i];");
    Recipe arch;
    arch.target.arch = "sm_80";
    expect(arch, "arch: sm_80 / sm_90a");
    Recipe compiler;
    compiler.compiler = "nvrtc build 2";
    expect(compiler, "compiler: nvrtc build 2 / nvrtc build 1");
    Recipe value;
    value.a = 7;
    expect(value, "A: 7 / 1");
    Recipe backend;
    backend.target.backend = Backend::hip;
    backend.options = {"-O3"};  // goes without saying
    expect(backend, "backend: hip / cuda");
}

TEST_F(Explain, TheSameVariantMadeOtherwiseIsNearerThanAnotherVariant) {
    Recipe other_variant;
    other_variant.a = 2;
    Recipe older;
    older.compiler = "nvrtc build 0";
    older.headers[0].text = "old";
    store(other_variant);
    store(older);
    const auto why = explain(plain);
    EXPECT_EQ(why.nearest_key, admin::key_of(older).digest);
    EXPECT_THAT(texts_of(why), ElementsAre(HasSubstr("compiler"), HasSubstr("header mine.h")));
}

TEST_F(Explain, TheFewestDifferencesAreNearest) {
    Recipe one, two, lines;
    one.options = {"--std=c++17"};
    two.options = {"--std=c++20", "-G"};
    // One ingredient as well, yet two lines.
    lines.body.replace(lines.body.find("blockIdx.x * blockDim.x"), 23, "blockDim.x * blockIdx.x");
    lines.body.replace(lines.body.find("A * x[i]"), 8, "x[i] * A");
    store(two);
    store(one);
    store(lines);
    // Where all else is equal, the one that was used last is told.
    admin::set_age(disk().entry_path(admin::key_of(one).digest), 100);
    EXPECT_EQ(explain(plain).nearest_key, admin::key_of(one).digest);
}

TEST_F(Explain, TheSameBackendIsPreferred) {
    Recipe hip, far;
    hip.target.backend = Backend::hip;
    far.a = 9;
    far.target.arch = "sm_75";
    store(hip);
    store(far);
    EXPECT_EQ(explain(plain).nearest_key, admin::key_of(far).digest);
}

TEST_F(Explain, PacksAndTheDirectoryAreSearchedTogether) {
    Recipe far, near;
    far.a = 2;
    far.target.arch = "sm_75";
    near.target.arch = "sm_80";
    store(far);
    auto with_packs = options();
    Recipe farther = far;
    farther.t = "double";
    with_packs.seed_packs = {pack_of(farther, "one"), pack_of(near, "two")};
    const auto why = explain(plain, with_packs);
    EXPECT_FALSE(why.tier);
    EXPECT_EQ(why.nearest_key, admin::key_of(near).digest);
    EXPECT_THAT(texts_of(why), ElementsAre("arch: sm_90a / sm_80"));
}

TEST_F(Explain, EntriesOfOtherKernelsAndForeignFilesAreNotNear) {
    Recipe other;
    other.body.replace(other.body.find("kernel axpy"), 11, "kernel apxy");
    other.body.replace(other.body.find("void axpy"), 9, "void apxy");
    store(other);
    const auto path = disk().entry_path(admin::key_of(other).digest);
    write_text(path.parent_path() / (std::string(64, 'a') + ".kiln"), "garbage");
    write_text(path.parent_path() / "notes", "garbage");
    const auto why = explain(plain);
    EXPECT_EQ(why.nearest_key, "");
    EXPECT_THAT(why.differences, IsEmpty());
}

TEST_F(Explain, ACacheThatIsOffIsAMissWithoutMore) {
    store(plain);
    auto off = options();
    off.enabled = false;
    EXPECT_FALSE(explain(plain, off).tier);
    EXPECT_EQ(explain(plain, off).nearest_key, "");
}

TEST_F(Explain, ManyEntriesAreSearchedInReasonableTime) {
    constexpr int kCount = 1000;
    fill(1, kCount);
    Recipe wanted;
    wanted.a = kCount / 2;
    wanted.compiler = "nvrtc build 2";
    const auto setup = open_cache(options());
    const auto key = admin::key_of(wanted);
    const Stopwatch watch;
    const auto why = explain_key(key, setup);
    const double elapsed_ms = watch.elapsed_ms();
    EXPECT_THAT(texts_of(why), ElementsAre("compiler: nvrtc build 2 / nvrtc build 1"));
    RecordProperty("elapsed_ms", std::to_string(elapsed_ms));
    EXPECT_LT(elapsed_ms, 5000);  // 40 ms without sanitizers and other load
}

}  // namespace
}  // namespace kiln
