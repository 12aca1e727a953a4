// SPDX-License-Identifier: Apache-2.0
//
// `if` of the lines input, output, inout, scratch and tensormap: arguments that only some variants have.
#include <string>
#include <vector>

#include "template/pointer_arguments.h"
#include "template/tensor_maps.h"
#include "template_support.h"

namespace kiln {
namespace {

using test::expect_template_error;
using test::make;
using test::template_text;

constexpr const char* kArguments =
    "int m, int n, float* c, const float* bias, const half* d, const __grid_constant__ kiln::TensorMap d_map";
const std::string kParameters = "//@ param BIAS int in 0, 1, 2 = 0\n//@ param D bool = false\n";
const std::string kLines =
    "//@ size m = 4\n//@ size n = 64\n//@ block 32\n//@ grid n\n//@ output c [m, n] by r\n"
    "//@ input bias [BIAS == 2 ? m : n] if BIAS != 0 \"what is added\"\n//@ input d [m, n] align 4 if D\n"
    "//@ tensormap d_map = d [m, n] box [4, 64] swizzle 128 if BIAS == 1\n";

std::vector<std::string> passed(const Variant& variant) {
    std::vector<std::string> names;
    for (const KernelArgument& argument : variant.arguments()) names.push_back(argument.name);
    return names;
}

std::vector<std::string> tensors(const Variant& variant) {
    std::vector<std::string> names;
    for (const Tensor& tensor : variant.problem().tensors) names.push_back(tensor.name);
    return names;
}

TEST(TemplateCondition, DecidesWhatCallersPass) {
    const Template of = make(kParameters, kArguments, kLines);
    EXPECT_EQ(of.tensors().at(1).condition_text, "BIAS != 0");
    EXPECT_EQ(of.tensors().at(1).text, "what is added");
    EXPECT_EQ(of.tensors().at(0).condition_text, "");
    EXPECT_EQ(of.tensor_maps().at(0).condition_text, "BIAS == 1");
    const Variant plain = of.variant(), d = of.variant({{"D", true}}),
                  both = of.variant({{"D", true}, {"BIAS", 2}});
    EXPECT_EQ(passed(plain), (std::vector<std::string>{"m", "n", "c"}));
    EXPECT_EQ(passed(d), (std::vector<std::string>{"m", "n", "c", "d"}));
    EXPECT_EQ(passed(both), (std::vector<std::string>{"m", "n", "c", "bias", "d"}));
    EXPECT_EQ(tensors(plain), (std::vector<std::string>{"c"}));
    EXPECT_EQ(tensors(d), (std::vector<std::string>{"c", "d"}));
    EXPECT_EQ(d.problem().tensors.at(1).type, "half");
    EXPECT_EQ(both.problem().tensors.at(1).extents, (std::vector<std::int64_t>{4}));
    EXPECT_EQ(pointer_arguments(d).at(1).argument, 3u);
    EXPECT_EQ(argument_places(d).at(3), std::nullopt);
    EXPECT_EQ(argument_places(d).at(4), 3u);
}

TEST(TemplateCondition, LeavesOutTensorMapsAndWhatTheyNeed) {
    const Template of = make(kParameters, kArguments, kLines);
    int m = 4, n = 64;
    void* pointers[3] = {};
    void* arguments[] = {&m, &n, &pointers[0], &pointers[1], &pointers[2]};
    const auto map = [&](const Values& values) {
        return tensor_map_specs(of.variant(values), static_cast<void* const*>(arguments)).at(0);
    };
    EXPECT_EQ(map({}).rank, 0);
    EXPECT_EQ(map({{"D", true}}).rank, 0);
    EXPECT_EQ(map({{"BIAS", 1}}).rank, 0) << "its tensor is not there";
    EXPECT_EQ(map({{"D", true}, {"BIAS", 1}}).rank, 2);
    EXPECT_EQ(map({{"D", true}, {"BIAS", 1}}).pointer_argument, 4u);
    EXPECT_EQ(of.variant({{"D", true}}).problem().tensors.at(1).align_bytes, 4u);
    EXPECT_EQ(of.variant({{"D", true}, {"BIAS", 1}}).problem().tensors.at(2).align_bytes, 16u);
}

TEST(TemplateCondition, IsTrueOrFalseAndKnownBeforeALaunch) {
    const auto with = [](const std::string& condition) {
        return template_text(
            "//@ param BIAS int in 0, 1 = 0\n", "int n, float* c, const float* bias",
            "//@ size n = 4\n//@ block 32\n//@ grid n\n//@ output c [n]\n//@ input bias [n] if " + condition +
                "\n");
    };
    expect_template_error(with("BIAS"), 7, 23, "whether bias is there must be true or false; BIAS is not");
    expect_template_error(with("n > 1"), 7, 23, "n");
}

TEST(TemplateCondition, WithoutAValueIsAnError) {
    const Template of =
        make("//@ param PARTS int in 0, 1, 2 = 1\n",
             "int m, int n, float* c, const float* bias, const half* d, "
             "const __grid_constant__ kiln::TensorMap d_map",
             "//@ size m = 4\n//@ size n = 64\n//@ block 32\n//@ grid n\n//@ output c [m, n] by r\n"
             "//@ input bias [m] if 2 / PARTS == 2\n//@ input d [m, n] if PARTS == 1\n"
             "//@ tensormap d_map = d [m, n] box [4, 64] if 2 % PARTS == 0\n");
    EXPECT_EQ(passed(of.variant()), (std::vector<std::string>{"m", "n", "c", "bias", "d"}));
    EXPECT_EQ(passed(of.variant({{"PARTS", 2}})), (std::vector<std::string>{"m", "n", "c"}));
    EXPECT_THAT(test::variant_error([&] {
                    of.variant({{"PARTS", 0}});
                }),
                testing::AllOf(testing::HasSubstr("2 / PARTS == 2"),
                               testing::HasSubstr("it decides whether bias is there")));
}

TEST(TemplateCondition, RulesOfTensorMapsHoldWhereTheMapIs) {
    const Template of =
        make("//@ param W int in 7, 64, 512 = 64\n//@ param D bool = false\n",
             "int m, int n, float* c, const half* d, const __grid_constant__ kiln::TensorMap d_map",
             "//@ size m = 4\n//@ size n = 64\n//@ block 32\n//@ grid n\n//@ output c [m, n] by r\n"
             "//@ input d [m, n] if D\n//@ tensormap d_map = d [m, n] box [4, W] swizzle 128 if D\n");
    EXPECT_EQ(of.variants({{"D", false}}).size(), 3u);
    EXPECT_EQ(of.variants({{"D", true}}).size(), 1u);
    EXPECT_THAT(test::variant_error([&] {
                    of.variant({{"W", 512}, {"D", true}});
                }),
                testing::HasSubstr("a box has 1 to 256 elements in each direction"));
}

TEST(TemplateCondition, StandsBehindWhatAllVariantsHave) {
    expect_template_error(
        template_text(
            "//@ param BIAS bool = false\n", "int n, const float* bias, float* c",
            "//@ size n = 4\n//@ block 32\n//@ grid n\n//@ output c [n]\n//@ input bias [n] if BIAS\n"),
        8, 28, "the argument c must come before bias, which only some variants have (line 7)");
}

}  // namespace
}  // namespace kiln
