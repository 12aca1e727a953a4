// SPDX-License-Identifier: Apache-2.0
//
// Wisdom files: they read back as they were written, damage is rejected with its line, and merging keeps what it says.
#include <gmock/gmock.h>
#include <kiln/error.h>
#include <kiln/wisdom.h>

#include <algorithm>
#include <random>
#include <thread>

#include "base/file.h"
#include "scoped_variable.h"
#include "tune/wisdom_line.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

WisdomEntry sample_entry() {
    WisdomEntry entry;
    entry.template_name = "gemm_wgmma";
    entry.values = {{"T", "half"}, {"BM", 128}, {"TMA_STORE", true}, {"ALPHA", 0.5}};
    entry.problem_values = {"ALPHA", "T"};
    entry.sizes = {{"m", 4096}, {"n", 264}, {"k", 8}};
    entry.device = "NVIDIA H200";
    entry.arch = "sm_90a";
    entry.median_ms = 0.187342;
    entry.tried = 37;
    entry.digest = "0123456789abcdef";
    entry.compiler = "NVRTC 13.0, build 65be0db3";
    entry.date = "2026-11-22T03:05:11Z";
    return entry;
}

std::string as_file(const std::vector<std::string>& lines) {
    std::string text(kWisdomHead);
    text += "\n";
    for (const std::string& line : lines) text += line + "\n";
    return text;
}

Wisdom merged(const std::vector<WisdomEntry>& entries) {
    Wisdom wisdom;
    wisdom.merge(entries);
    return wisdom;
}

std::string refusal(const std::string& text) {
    try {
        static_cast<void>(Wisdom::parse(text, "w.txt"));
    } catch (const UsageError& error) {
        return error.what();
    }
    return "(accepted)";
}

TEST(Wisdom, ReadsBackAsWritten) {
    const WisdomEntry entry = sample_entry();
    EXPECT_EQ(
        entry.text(),
        "gemm_wgmma ALPHA=0.5 T=half | k=8 m=4096 n=264 | BM=128 TMA_STORE=true | NVIDIA H200 | sm_90a | "
        "0.187342 ms | 37 | 0123456789abcdef | NVRTC 13.0, build 65be0db3 | 2026-11-22T03:05:11Z");
    const Wisdom wisdom = Wisdom::parse(as_file({"# a comment", "", entry.text()}), "w.txt");
    ASSERT_THAT(wisdom.entries(), SizeIs(1));
    const WisdomEntry& read = wisdom.entries().front();
    EXPECT_EQ(read.text(), entry.text());
    EXPECT_EQ(read.values, entry.values);
    EXPECT_EQ(read.problem_values, entry.problem_values);
    EXPECT_EQ(read.sizes, entry.sizes);
    EXPECT_DOUBLE_EQ(read.median_ms, entry.median_ms);
    EXPECT_EQ(Wisdom::parse(wisdom.text(), "again").text(), wisdom.text());
}

TEST(Wisdom, ATemplateWithoutValuesAndAnEmptyFileAreFine) {
    WisdomEntry entry = sample_entry();
    entry.values.clear();
    entry.problem_values.clear();
    EXPECT_EQ(Wisdom::parse(as_file({entry.text()}), "w").entries().front().text(), entry.text());
    entry.sizes.clear();
    EXPECT_EQ(Wisdom::parse(as_file({entry.text()}), "w").entries().front().text(), entry.text());
    EXPECT_TRUE(Wisdom::parse("", "w").empty());
    EXPECT_TRUE(Wisdom::parse(as_file({}), "w").empty());
}

TEST(Wisdom, ReadsOldNamesOfParameters) {
    const std::string sizes = " | batch=1 | ",
                      end =
                          " | NVIDIA H200 | sm_90a | 0.100000 ms | 1 | 0123456789abcdef | "
                          "NVRTC 13.0 | 2026-11-22T03:05:11Z";
    const std::string old = "decode_mma GROUP=4 HEAD=128 PAGE=16 T=half" + sizes + "BLOCKS=2 WARPS=4" + end;
    const std::string now =
        "decode_mma GQA_GROUP=4 HEAD_DIM=128 PAGE_SIZE=16 T=half" + sizes + "BLOCKS_PER_SM=2 WARPS=4" + end;
    const std::string users = "users_kernel GROUP=4" + sizes + "BLOCKS=2" + end;
    EXPECT_EQ(Wisdom::parse(as_file({old, users, now}), "w").text(), as_file({now, users}));
    EXPECT_THAT(refusal(as_file({"decode_mma HEAD=128 HEAD_DIM=64" + sizes + "-" + end})),
                HasSubstr("it is given twice"));
}

TEST(Wisdom, NamesThatWouldBreakALineAreChanged) {
    WisdomEntry entry = sample_entry();
    entry.device = "A | B\nC";
    EXPECT_THAT(Wisdom::parse(as_file({entry.text()}), "w").entries(), SizeIs(1));
}

TEST(Wisdom, DamageIsRejectedWithItsLine) {
    const std::string line = sample_entry().text();
    EXPECT_THAT(refusal(as_file({line, line.substr(0, line.size() / 2)})), StartsWith("w.txt:3: "));
    for (std::size_t cut = 1; cut < line.size(); ++cut)
        EXPECT_THAT(refusal(as_file({"# fine", line.substr(0, cut)})), StartsWith("w.txt:3: ")) << cut;
    EXPECT_THAT(refusal(line + "\n"), AllOf(StartsWith("w.txt:1: "), HasSubstr("begins with")));
    const std::vector<std::pair<std::string, std::string>> spoilt = {{"0.187342 ms", "-1 ms"},
                                                                     {"0.187342 ms", "0.187342 s"},
                                                                     {"0.187342 ms", "nan ms"},
                                                                     {"m=4096", "m=0"},
                                                                     {"m=4096", "m=4096 m=1"},
                                                                     {"m=4096", "m"},
                                                                     {"| 37 |", "| many |"},
                                                                     {"0123456789abcdef", "0123"},
                                                                     {"0123456789abcdef", "0123456789ABCDEF"},
                                                                     {"2026-11-22", "2026/11/22"},
                                                                     {"2026-11-22", "2026-13-22"},
                                                                     {"2026-11-22", "2026-02-30"},
                                                                     {"T03:05:11", "T24:05:11"},
                                                                     {"T03:05:11", "T03:60:11"},
                                                                     {"T03:05:11", "T03:05:61"},
                                                                     {"BM=128", "BM=12;8"},
                                                                     {"BM=128", "BM=128 T=float"},
                                                                     {"gemm_wgmma", "7emm"},
                                                                     {"| sm_90a |", "|  |"}};
    for (const auto& [from, to] : spoilt) {
        std::string bad = line;
        bad.replace(bad.find(from), from.size(), to);
        EXPECT_THAT(refusal(as_file({bad})), StartsWith("w.txt:2: ")) << to;
    }
}

TEST(Wisdom, TheBetterTimeWinsWithinASource) {
    WisdomEntry slow = sample_entry(), fast = sample_entry();
    fast.median_ms = 0.1;
    fast.values.insert_or_assign("BM", 256);
    slow.date = "2026-11-23T00:00:00Z";
    const Wisdom wisdom = merged({slow, fast});
    ASSERT_THAT(wisdom.entries(), SizeIs(1));
    EXPECT_DOUBLE_EQ(wisdom.entries().front().median_ms, 0.1);
    EXPECT_EQ(wisdom.entries().front().values.at("BM"), Value(256));
    EXPECT_EQ(wisdom.entries().front().date, slow.date) << "it still was the best then";
}

TEST(Wisdom, TheNewestSourceWins) {
    WisdomEntry old = sample_entry(), renewed = sample_entry(), again = sample_entry();
    old.median_ms = 0.01;
    renewed.digest = again.digest = "fedcba9876543210";
    renewed.date = "2026-11-22T04:00:00Z";
    renewed.median_ms = 0.5;
    again.date = "2026-11-22T03:30:00Z";
    again.median_ms = 0.4;
    std::vector<WisdomEntry> entries = {old, renewed, again};
    std::mt19937 random(1);
    for (int i = 0; i < 6; ++i) {
        std::ranges::shuffle(entries, random);
        const Wisdom wisdom = merged(entries);
        ASSERT_THAT(wisdom.entries(), SizeIs(1));
        EXPECT_EQ(wisdom.entries().front().digest, renewed.digest);
        EXPECT_DOUBLE_EQ(wisdom.entries().front().median_ms, 0.4);
    }
}

TEST(Wisdom, AnotherCompilerIsAnotherSource) {
    WisdomEntry old = sample_entry(), renewed = sample_entry();
    old.median_ms = 0.01;  // which the compiler of today does not reach
    renewed.compiler = "NVRTC 13.1, build 12345678";
    renewed.date = "2026-11-23T00:00:00Z";
    EXPECT_EQ(merged({old, renewed}).text(), merged({renewed}).text());
    EXPECT_EQ(merged({renewed, old}).text(), merged({renewed}).text());
}

TEST(Wisdom, OtherProblemsStayApart) {
    std::vector<WisdomEntry> entries(6, sample_entry());
    entries[1].device = "NVIDIA H100 PCIe";
    entries[2].arch = "sm_80";
    entries[3].values.insert_or_assign("T", "bfloat16");
    entries[4].sizes["m"] = 4097;
    entries[5].template_name = "gemm_mma";
    EXPECT_THAT(merged(entries).entries(), SizeIs(6));
    WisdomEntry other_way = sample_entry();
    other_way.values.insert_or_assign("BM", 64);
    EXPECT_THAT(merged({sample_entry(), other_way}).entries(), SizeIs(1)) << "how is no part of the problem";
}

TEST(Wisdom, ADateInTheFutureIsOlderThanAll) {
    WisdomEntry early = sample_entry(), ahead = sample_entry();
    ahead.digest = "fedcba9876543210";
    ahead.date = "9999-01-01T00:00:00Z";  // of a clock that was wrong
    for (const auto& order : {std::vector{early, ahead}, std::vector{ahead, early}}) {
        ASSERT_THAT(merged(order).entries(), SizeIs(1));
        EXPECT_EQ(merged(order).entries().front().digest, early.digest);
    }
    WisdomEntry further = ahead;
    further.digest = "aaaabbbbccccdddd";
    further.date = "9999-02-01T00:00:00Z";
    further.median_ms = 2 * ahead.median_ms;
    EXPECT_EQ(merged({further, ahead}).entries().front().digest, further.digest) << "among themselves";
}

TEST(Wisdom, TheUsersEntryReplacesTheShippedOne) {
    WisdomEntry own = sample_entry();
    own.median_ms = 9;
    Wisdom wisdom = merged({sample_entry()});
    wisdom.prefer(merged({own}));
    ASSERT_THAT(wisdom.entries(), SizeIs(1));
    EXPECT_DOUBLE_EQ(wisdom.entries().front().median_ms, 9);
}

TEST(Wisdom, TheUsersEntryOfAnotherSourceHidesNothing) {
    WisdomEntry own = sample_entry();
    own.digest = "fedcba9876543210";
    own.date = "2027-01-01T00:00:00Z";  // tuned with an older Kiln after the newer one's wisdom was found
    Wisdom wisdom = merged({sample_entry()});
    wisdom.prefer(merged({own}));
    EXPECT_THAT(wisdom.entries(), SizeIs(2));
    wisdom.keep_if([&](const WisdomEntry& entry) { return entry.digest == own.digest; });
    EXPECT_EQ(wisdom.text(), merged({own}).text());
}

TEST(Wisdom, WhatCouldNotBeReadBackIsNotWritten) {
    const TemporaryDirectory folder;
    const auto file = folder.path() / "w.txt";
    Wisdom::store(file, merged({sample_entry()}));
    const std::string before = *read_text_if_exists(file);
    WisdomEntry broken = sample_entry();
    broken.sizes["m"] = 0;
    EXPECT_THROW(Wisdom::store(file, merged({broken})), UsageError);
    EXPECT_EQ(*read_text_if_exists(file), before);
}

TEST(Wisdom, StoringMergesIntoTheFile) {
    const TemporaryDirectory folder;
    const auto file = folder.path() / "new" / "w.txt";
    std::vector<std::thread> writers;
    for (int i = 0; i < 8; ++i)
        writers.emplace_back([&, i] {
            WisdomEntry entry = sample_entry();
            entry.sizes["m"] = 1 + i;
            Wisdom::store(file, merged({entry}));
        });
    for (std::thread& writer : writers) writer.join();
    EXPECT_THAT(Wisdom::load(file).entries(), SizeIs(8));
    std::vector<std::string> names;
    for (const auto& left : std::filesystem::directory_iterator(file.parent_path()))
        names.push_back(left.path().filename());
    EXPECT_THAT(names, ElementsAre("w.txt")) << "neither locks nor temporary files stay";
}

TEST(Wisdom, ADamagedFileIsNotWrittenOver) {
    const TemporaryDirectory folder;
    const auto file = folder.path() / "w.txt";
    write_text(file, as_file({"half a li"}));
    EXPECT_THROW(Wisdom::store(file, merged({sample_entry()})), UsageError);
    EXPECT_EQ(*read_text_if_exists(file), as_file({"half a li"}));
    const ScopedVariable variable("KILN_WISDOM", file.string());
    std::string problem;
    EXPECT_EQ(Wisdom::usual(&problem).text(), Wisdom::shipped().text());
    EXPECT_THAT(problem, AllOf(HasSubstr("w.txt:2: "), HasSubstr("is ignored")));
}

TEST(Wisdom, TheUsersFileIsFound) {
    const TemporaryDirectory folder;
    {
        const ScopedVariable variable("KILN_WISDOM", (folder.path() / "mine.txt").string());
        EXPECT_EQ(Wisdom::user_file(), folder.path() / "mine.txt");
        EXPECT_EQ(Wisdom::usual().text(), Wisdom::shipped().text()) << "it need not be there";
        Wisdom::store(Wisdom::user_file(), merged({sample_entry()}));
        EXPECT_THAT(Wisdom::usual().text(), HasSubstr(sample_entry().text()));
        EXPECT_THROW(static_cast<void>(Wisdom::load(folder.path() / "none.txt")), UsageError);
    }
    const ScopedVariable none("KILN_WISDOM", ""), config("XDG_CONFIG_HOME", folder.path().string());
    EXPECT_EQ(Wisdom::user_file(), folder.path() / "kiln" / "wisdom.txt");
}

TEST(Wisdom, WhatIsShippedIsRight) { EXPECT_NO_THROW(static_cast<void>(Wisdom::shipped())); }

}  // namespace
}  // namespace kiln::test
