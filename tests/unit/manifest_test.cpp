// SPDX-License-Identifier: Apache-2.0
//
// Manifests: what they say, where they are wrong, and which variants they stand for.
#include <kiln/manifest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>

#include "base/file.h"
#include "template_support.h"

namespace kiln {
namespace {

using test::make;
using testing::ElementsAre;
using testing::HasSubstr;

void expect_error(const std::string& text, int line, int column, const std::string& part) {
    try {
        Manifest::parse(text, "warm.txt");
        ADD_FAILURE() << "no error for\n" << text;
    } catch (const TemplateError& error) {
        EXPECT_EQ(error.line(), line) << error.what();
        EXPECT_EQ(error.column(), column) << error.what();
        EXPECT_THAT(error.what(), HasSubstr(part));
        EXPECT_THAT(error.what(), testing::StartsWith("warm.txt:"));
        EXPECT_LT(std::string(error.what()).size(), 500u);
    }
}

std::string variants_error(const std::string& line, const Template& of) {
    try {
        const auto variants = Manifest::parse(line, "warm.txt").lines.at(0).variants(of, "warm.txt");
        ADD_FAILURE() << "no error for " << line << ", but " << variants.size() << " variants";
    } catch (const TemplateError& error) {
        EXPECT_EQ(error.line(), 1);
        EXPECT_THAT(error.what(), testing::StartsWith("warm.txt:1:"));
        return error.what();
    }
    return {};
}

std::vector<std::string> texts(const std::string& line, const Template& of) {
    std::vector<std::string> texts;
    for (const Variant& variant : Manifest::parse(line, "warm.txt").lines.at(0).variants(of, "warm.txt"))
        texts.push_back(variant.text());
    return texts;
}

Template sample() {
    return make(
        "//@ param BM int in 16, 32, 64 = 32\n"
        "//@ param BN int in 16, 32, 64 = 32\n"
        "//@ param T type in half, float = half\n"
        "//@ param V bool = false\n"
        "//@ param R int in 1..1000000000000 = 1\n"
        "//@ require BM <= BN\n");
}

TEST(Manifest, ReadsLinesValuesAndTargets) {
    const Manifest manifest = Manifest::parse(
        "# all of it\n\ngemm_tiled BM=64 BN=32,64 T=*   @cuda:sm_90a @hip @hip:gfx90a:xnack-\nnaive\n"
        "  \t# an indented comment\nnaive @host # behind\n",
        "warm.txt");
    EXPECT_EQ(manifest.file, "warm.txt");
    ASSERT_EQ(manifest.lines.size(), 3u);
    const ManifestLine& line = manifest.lines[0];
    EXPECT_EQ(line.template_name, "gemm_tiled");
    EXPECT_EQ(line.line, 3);
    EXPECT_THAT(line.values, ElementsAre(testing::Pair("BM", ElementsAre("64")),
                                         testing::Pair("BN", ElementsAre("32", "64")),
                                         testing::Pair("T", ElementsAre("*"))));
    EXPECT_THAT(line.targets,
                ElementsAre(ManifestTarget{Backend::cuda, "sm_90a"}, ManifestTarget{Backend::hip, ""},
                            ManifestTarget{Backend::hip, "gfx90a:xnack-"}));
    EXPECT_EQ(manifest.lines[1].template_name, "naive");
    EXPECT_TRUE(manifest.lines[1].values.empty());
    EXPECT_THAT(manifest.lines[2].targets, ElementsAre(ManifestTarget{Backend::host, ""}));
    EXPECT_EQ(manifest.lines[2].line, 6);
}

TEST(Manifest, ReadsFilesOfOtherSystems) {
    const Manifest manifest = Manifest::parse("\xef\xbb\xbfnaive\tBX=8\r\n\r\n# caf\xc3\xa9\r\nnaive", "w");
    ASSERT_EQ(manifest.lines.size(), 2u);
    EXPECT_EQ(manifest.lines[0].template_name, "naive");
    EXPECT_EQ(manifest.lines[0].values.at("BX"), std::vector<std::string>{"8"});
    EXPECT_EQ(manifest.lines[1].line, 4);
    for (const char* nothing : {"", "\n", "\r\n", "\xef\xbb\xbf", "# only", "   \n\t\n"})
        EXPECT_TRUE(Manifest::parse(nothing, "w").lines.empty()) << nothing;
}

TEST(Manifest, PointsAtWhatIsWrong) {
    expect_error("BM=64", 1, 1, "begins with the name of a template");
    expect_error("\n @cuda", 2, 2, "begins with the name of a template");
    expect_error("naive BM 64", 1, 7, "write BM=VALUE, without blanks");
    expect_error("naive BM = 64", 1, 7, "write BM=VALUE, without blanks");
    expect_error("naive cuda", 1, 7, "did you mean @cuda?");
    expect_error("naive =4", 1, 7, "neither NAME=VALUE nor a target");
    expect_error("naive 4=4", 1, 7, "neither NAME=VALUE nor a target");
    expect_error("naive BM=", 1, 10, "a value of \"BM\" is missing");
    expect_error("naive BM=1,,2", 1, 12, "a value of \"BM\" is missing");
    expect_error("naive BM=1, 2", 1, 12, "a value of \"BM\" is missing");
    expect_error("naive BM=*,2", 1, 7, "write one or the other");
    expect_error("naive BM=*2", 1, 10, "can't be part of one");
    expect_error("naive BM=1,BN=2", 1, 12, "\"BN=2\" can't be a value of \"BM\"");
    expect_error("naive BM=1@cuda", 1, 10, "set apart by blanks");
    expect_error("naive @cuda:sm_80,sm_90", 1, 18, "\"sm_80,sm_90\" is no architecture");
    expect_error("naive @cuda:sm_80@hip", 1, 18, "is no architecture");
    expect_error("naive BM=1 BN=2 BM=3", 1, 17, "was given before");
    expect_error("naive @cuda:sm_80 @cuda:sm_80", 1, 19, "was given before");
    expect_error("naive @cuda @cuda", 1, 13, "was given before");
    expect_error("naive @cudda", 1, 8,
                 "\"cudda\" is no backend; there are cuda, hip and host; did you mean cuda?");
    expect_error("naive @CUDA:sm_80", 1, 8, "did you mean cuda?");
    expect_error("naive @", 1, 7, "names no backend; there are @cuda, @hip, @host");
    expect_error("naive @:sm_80", 1, 7, "names no backend");
    expect_error("naive @cuda:", 1, 12, "names no architecture behind its colon; write @cuda for");
}

TEST(Manifest, RejectsWhatIsNoText) {
    using namespace std::string_literals;
    expect_error("na\0ive"s, 1, 3, "byte 0x00, a control character");
    expect_error("naive BM=\xe2\x88\x92"s + "4", 1, 10, "byte 0xe2, part of a character that is not ASCII");
    expect_error(
        "naive\xc2\xa0"
        "BM=4",
        1, 6, "byte 0xc2");
    expect_error("naive\rnaive", 1, 6, "byte 0x0d");
    expect_error("naive BM=4 \x7f", 1, 12, "byte 0x7f");
}

TEST(Manifest, LongLinesAreReadAndNotRepeatedInMessages) {
    std::string line = "naive BM=1";
    for (int i = 2; i < 200000; ++i) line += "," + std::to_string(i);
    const Manifest manifest = Manifest::parse(line, "w");
    EXPECT_EQ(manifest.lines.at(0).values.at("BM").size(), 199999u);
    expect_error("naive @" + std::string(1'000'000, 'x'), 1, 8, "is no backend");
    expect_error(std::string(1'000'000, '='), 1, 1, "is none");
    expect_error("naive " + std::string(1'000'000, 'x'), 1, 7, "...");
}

TEST(Manifest, LoadsAFileAndSaysWhenItCannot) {
    const TemporaryDirectory directory;
    const auto path = directory.path() / "warm.txt";
    write_text(path, "naive BX=8\n");
    EXPECT_EQ(Manifest::load(path).lines.size(), 1u);
    EXPECT_EQ(Manifest::load(path).file, path.string());
    const auto error = [](const std::filesystem::path& file) -> std::string {
        try {
            Manifest::load(file);
        } catch (const TemplateError& failure) {
            EXPECT_EQ(failure.line(), 0);
            return failure.what();
        }
        return {};
    };
    EXPECT_THAT(error(directory.path() / "none"), HasSubstr("none: there is no such manifest"));
    EXPECT_THAT(error(directory.path()), HasSubstr("it is a directory"));
    EXPECT_THAT(error("/dev/zero"), HasSubstr("it is a device"));
    std::filesystem::resize_file(path, std::uintmax_t{1} << 40);
    EXPECT_THAT(error(path), HasSubstr("larger than what is read here, a file of at most 64.0 MiB"));
}

TEST(ManifestLine, DefaultsForWhatIsNotNamed) {
    EXPECT_THAT(texts("k", sample()), ElementsAre("k BM=32 BN=32 T=half V=false R=1"));
    EXPECT_THAT(texts("k R=7 T=f32 V=true", sample()), ElementsAre("k BM=32 BN=32 T=float V=true R=7"));
}

TEST(ManifestLine, ListsGiveLegalCombinationsInTheParametersOrder) {
    // Of the nine, those with BM <= BN; written in no order, and one value twice under two names.
    EXPECT_THAT(texts("k BN=64,32 BM=64,16,16", sample()),
                ElementsAre("k BM=16 BN=32 T=half V=false R=1", "k BM=16 BN=64 T=half V=false R=1",
                            "k BM=64 BN=64 T=half V=false R=1"));
    EXPECT_EQ(texts("k T=half,fp16,f16", sample()).size(), 1u);
}

TEST(ManifestLine, StarIsAllLegalOnes) {
    EXPECT_THAT(texts("k BM=* BN=*", sample()).size(), 6u);
    EXPECT_THAT(texts("k BM=* BN=32,16", sample()),
                ElementsAre("k BM=16 BN=16 T=half V=false R=1", "k BM=16 BN=32 T=half V=false R=1",
                            "k BM=32 BN=32 T=half V=false R=1"));
    EXPECT_EQ(texts("k BM=* BN=* T=* V=*", sample()).size(), 24u);
}

TEST(ManifestLine, SaysWhatIsUnknown) {
    EXPECT_THAT(variants_error("k BMM=16", sample()),
                HasSubstr("k has no parameter BMM; it has BM, BN, T, V, R; did you mean BM?"));
    EXPECT_THAT(variants_error("k BM=48", sample()),
                HasSubstr("BM = 48 is not one of 16, 32, 64; the nearest is 32 or 64"));
    EXPECT_THAT(variants_error("k BM=16,1..8", sample()), HasSubstr("BM = 1..8 is not an integer"));
    EXPECT_THAT(variants_error("k T=flaot", sample()), HasSubstr("did you mean float?"));
    EXPECT_THAT(variants_error("k V=maybe", sample()), HasSubstr("neither true nor false"));
    EXPECT_THAT(variants_error("k X=*", make("")), HasSubstr("it has none at all"));
}

TEST(ManifestLine, SaysWhyNoCombinationIsLegal) {
    EXPECT_THAT(variants_error("k BM=64 BN=16,32", sample()), HasSubstr("BM <= BN"));
    EXPECT_THAT(variants_error("k BM=64 BN=16 T=*", sample()), HasSubstr("BM <= BN"));
    const Template cuda_only = make("//@ backend cuda\n").for_target({Backend::host, "x86-64", {}});
    EXPECT_THAT(variants_error("k", cuda_only), HasSubstr("written for cuda only"));
}

TEST(ManifestLine, RejectsAbsurdNumbersBeforeCounting) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THAT(variants_error("k R=*", sample()),
                HasSubstr("more than 1000000 combinations (1000000000000 of R)"));
    EXPECT_THAT(variants_error("k BM=16,32 R=*", sample()), HasSubstr("(2 of BM times 1000000000000 of R)"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
    // A few values of a wide range are no such number.
    EXPECT_EQ(texts("k R=1,1000000000000,5", sample()).size(), 3u);
}

}  // namespace
}  // namespace kiln
