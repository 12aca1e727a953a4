// SPDX-License-Identifier: Apache-2.0
//
// Variants: enumeration against brute force, identity, and the grid at launch.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <unordered_set>

#include "base/file.h"
#include "template_support.h"

namespace kiln {
namespace {

using test::cuda_target;
using test::make;
using test::template_text;
using test::variant_error;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kSpace = R"(//@ param A int in 4, 2, 1, 3 = 4
//@ param F bool = true
//@ param W int in -2..5 = 1
//@ param T type in half, float = half
//@ require A * W < 9
//@ require !F || T == half
//@ require W != 0 && 12 % W == 0 || A == 1
)";

TEST(Variants, AgreeWithBruteForce) {
    const Template parsed = make(kSpace);
    std::vector<std::string> expected;
    for (int a : {4, 2, 1, 3})
        for (bool f : {false, true})
            for (int w = -2; w <= 5; ++w)
                for (std::string t : {"half", "float"}) {
                    const bool legal =
                        a * w < 9 && (!f || t == "half") && ((w != 0 && 12 % w == 0) || a == 1);
                    if (!legal) continue;
                    std::string text = "k A=";
                    text += std::to_string(a) + (f ? " F=true W=" : " F=false W=") + std::to_string(w) +
                            " T=" + t;
                    expected.push_back(text);
                }
    std::vector<std::string> found;
    for (const Variant& variant : parsed.variants()) found.push_back(variant.text());
    EXPECT_EQ(found, expected);

    const auto fixed = parsed.variants({{"A", 1}, {"T", "f32"}});
    EXPECT_EQ(fixed.size(), 8u);
    for (const Variant& variant : fixed) EXPECT_EQ(variant, parsed.variant(variant.values()));
    EXPECT_THROW(parsed.variants({{"A", 9}}), VariantError);
    EXPECT_THROW(parsed.variants({{"X", 9}}), VariantError);
    EXPECT_EQ(make("").variants().size(), 1u);
}

TEST(Variants, AreCountedWithoutMakingThem) {
    // C and D are in no rule.
    const std::string space =
        "//@ param A int in 1, 2, 3, 4 = 1\n//@ param C int in 1..1000000 = 1\n"
        "//@ param B int in 1, 2, 3, 4 = 1\n//@ param D int in 1..1000 = 7\n"
        "//@ require A < B \"less\"\n";
    const Template parsed = make(space);
    EXPECT_EQ(parsed.variant_count(), 6'000'000'000u);
    EXPECT_EQ(parsed.variant_count({{"A", 3}, {"D", 5}}), 1'000'000u);
    EXPECT_EQ(parsed.variant_count({{"A", 4}}), 0u);
    EXPECT_EQ(make("").variant_count(), 1u);
    EXPECT_EQ(parsed.first_variant().value().text(), "k A=1 C=1 B=2 D=1");
    EXPECT_EQ(parsed.first_variant({{"A", 3}, {"C", 9}}).value().text(), "k A=3 C=9 B=4 D=1");
    EXPECT_FALSE(parsed.first_variant({{"A", 4}}).has_value());
    EXPECT_EQ(parsed.variants({{"C", 1}, {"D", 1}}).size(), 6u);
    EXPECT_THAT(variant_error([&] { parsed.variants(); }), HasSubstr("(6000000000 legal ones"));
    std::string wide;
    for (char c = 'A'; c < 'A' + 4; ++c)
        wide += std::string("//@ param ") + c + " int in 1..4000000000000000000 = 1\n";
    EXPECT_EQ(make(wide).variant_count(), std::nullopt);
    EXPECT_THROW(parsed.variant_count({{"X", 9}}), VariantError);
}

TEST(Variants, LargeSpacesAreFast) {
    // 2^20 combinations, of which the rules leave 1024: pruned, not tried one by one.
    std::string lines;
    for (char c = 'A'; c < 'A' + 20; ++c) lines += std::string("//@ param ") + c + " int in 0, 1 = 0\n";
    for (char c = 'A'; c < 'A' + 20; c += 2)
        lines += std::string("//@ require ") + c + " == " + static_cast<char>(c + 1) + "\n";
    const Template parsed = make(lines);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(parsed.variants().size(), 1024u);
    const std::chrono::duration<double> pruned = std::chrono::steady_clock::now() - start;
    EXPECT_LT(pruned.count(), 1.0);
}

TEST(Variants, EndlessRangesAreRejected) {
    const Template parsed =
        make("//@ param A int in 1..4000000000000000000 = 1\n//@ require A < 0 || A == 1\n");
    EXPECT_EQ(parsed.variants({{"A", 1}}).size(), 1u);
    EXPECT_THAT(variant_error([&] { parsed.variants(); }), HasSubstr("too many combinations"));
}

TEST(Variants, Identity) {
    const std::string text = template_text(kSpace);
    const Template first = Template::parse(text, "a/k.cu"), second = Template::parse(text, "b/k.cu");
    EXPECT_EQ(first.variant(), second.variant());
    EXPECT_EQ(first.variant().hash(), second.variant().hash());
    EXPECT_EQ(first.variant(), first.for_target(cuda_target()).variant());
    EXPECT_EQ(first.variant(), first.variant().origin().variant());
    EXPECT_FALSE(first.variant() == first.variant({{"A", 1}}));
    EXPECT_FALSE(first.variant() == Template::parse(text + "\n", "a/k.cu").variant());
    EXPECT_FALSE(first.variant() == Template::parse(text, "a/other.cu").variant());

    const std::string includes = "#include \"own.h\"\n" + text;
    const Variant one = Template::parse(includes, "k.cu", {{"own.h", "1"}}).variant();
    EXPECT_FALSE(one == Template::parse(includes, "k.cu", {{"own.h", "2"}}).variant());
    EXPECT_EQ(one, Template::parse(includes, "k.cu", {{"own.h", "1"}, {"unused.h", "3"}}).variant());

    std::unordered_set<std::size_t> hashes;
    for (const Variant& variant : first.variants()) hashes.insert(variant.hash());
    EXPECT_EQ(hashes.size(), first.variants().size());
}

TEST(Grid, FollowsTheArguments) {
    const Template parsed = make("//@ param BN int in 16, 64 = 64\n",
                                 "int m, unsigned n, long long z, const float* x, unsigned short s",
                                 "//@ block 8, 8\n//@ grid ceil_div(n, BN), m * s, z > 10 ? z / 2 : 1\n");
    int m = 7;
    unsigned n = 4000000001u, s = 3;
    long long z = 100;
    const float* x = nullptr;
    auto narrow = static_cast<unsigned short>(s);
    void* arguments[] = {&m, &n, &z, &x, &narrow};
    EXPECT_EQ(parsed.variant().grid(arguments), (Dim3{62500001, 21, 50}));
    EXPECT_EQ(parsed.variant({{"BN", 16}}).grid(arguments).x, 250000001u);
    z = 3;
    EXPECT_EQ(parsed.variant().grid(arguments).z, 1u);
    EXPECT_EQ(make("", "int n", "//@ block 1\n//@ grid 5, threads + 1\n").variant().grid(nullptr),
              (Dim3{5, 2, 1}));
}

TEST(Grid, Errors) {
    const Template parsed = make("//@ param BN int in 16 = 16\n", "long long m, long long n",
                                 "//@ block 8\n//@ grid ceil_div(n, BN), m\n");
    long long m = 5, n = 0;
    void* arguments[] = {&m, &n};
    const auto message = [&](const Template& from) {
        return variant_error([&] { from.variant().grid(arguments); });
    };
    EXPECT_EQ(parsed.variant().grid(arguments), (Dim3{0, 5, 1})) << "an empty launch";
    m = -1;
    EXPECT_THAT(message(parsed), HasSubstr("is -1")) << "no extent hides another";
    m = 5, n = -5000;
    EXPECT_THAT(message(parsed),
                AllOf(HasSubstr("k: the grid's x, ceil_div(n, BN), is -312, but can't be negative"),
                      HasSubstr("n = -5000, BN = 16")));
    n = 16;
    m = 65536;
    EXPECT_EQ(parsed.variant().grid(arguments).y, 65536u);
    EXPECT_THAT(message(parsed.for_target(cuda_target())),
                AllOf(HasSubstr("the grid's y, m, is 65536"), HasSubstr("the most is 65535")));
    m = 1LL << 32;
    EXPECT_THAT(message(parsed), HasSubstr("the most is 4294967295"));
    const Template overflows = make("", "long long m, long long n", "//@ block 8\n//@ grid m * n * m\n");
    n = m;
    EXPECT_THAT(message(overflows), HasSubstr("m * n overflows 64 bits"));
}

TEST(Grid, IsAMultipleOfTheCluster) {
    const Template parsed = make("//@ cluster 2\n", "int n", "//@ block 8\n//@ grid n\n");
    int n = 6;
    void* arguments[] = {&n};
    EXPECT_EQ(parsed.variant().grid(arguments).x, 6u);
    n = 7;
    EXPECT_THAT(variant_error([&] { parsed.variant().grid(arguments); }),
                AllOf(HasSubstr("7 blocks"), HasSubstr("no multiple of the cluster's, 2")));
}

TEST(Load, FromADirectory) {
    const TemporaryDirectory directory;
    write_text(directory.path() / "k.cu", "// k: loaded\n" + template_text(""));
    const Template loaded = Template::load(directory.path() / "k.cu");
    EXPECT_EQ(loaded.summary(), "loaded");
    EXPECT_EQ(loaded.variant().source(Backend::cuda).file_name, "k.cu");
    EXPECT_EQ(loaded.variant().source(Backend::cuda).entry, "k");
}

TEST(Load, WhatIsNoTemplate) {
    const TemporaryDirectory directory;
    const auto message = [](const std::filesystem::path& path) -> std::string {
        try {
            Template::load(path);
        } catch (const TemplateError& error) {
            EXPECT_EQ(error.line(), 1);
            EXPECT_EQ(error.column(), 1);
            EXPECT_EQ(error.file(), path.string());
            return error.what();
        }
        return "no error";
    };
    EXPECT_THAT(message(directory.path() / "none.cu"), HasSubstr("no such template file"));
    EXPECT_THAT(message(directory.path()), HasSubstr("a directory"));
    EXPECT_THAT(message("/dev/zero"), HasSubstr("it is a device"));
    write_text(directory.path() / "nul.cu", std::string_view("//\0", 3));
    EXPECT_THAT(message(directory.path() / "nul.cu"), HasSubstr("NUL"));
    write_text(directory.path() / "empty.cu", "");
    EXPECT_THAT(message(directory.path() / "empty.cu"), HasSubstr("//@ kernel NAME"));
}

TEST(Template, IsSharedByThreads) {
    const Template parsed = make(kSpace);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&parsed] {
            for (int k = 0; k < 50; ++k) EXPECT_EQ(parsed.variants({{"A", 1}}).size(), 24u);
        });
    for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kiln
