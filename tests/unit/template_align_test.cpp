// SPDX-License-Identifier: Apache-2.0
//
// `align` of the lines input, output, inout and scratch: what the address of a tensor must be a multiple of.
#include <string>

#include "template/pointer_arguments.h"
#include "template_support.h"

namespace kiln {
namespace {

using test::expect_template_error;
using test::make;
using test::template_text;

constexpr const char* kSize = "//@ size m = 4\n//@ size n = 4\n//@ block 32\n//@ grid 1\n";

std::size_t alignment(const Variant& variant) { return variant.problem().tensors.at(0).align_bytes; }

TEST(TemplateAlign, IsWhatTheLineOrTheElementsNeed) {
    const auto chosen =
        make("//@ param VEC int in 1..8 = 4\n", "int m, int n, float* c",
             std::string(kSize) + "//@ output c [m, n] align min(16, VEC * sizeof(float)) by r\n");
    EXPECT_EQ(chosen.tensors().at(0).align_text, "min(16, VEC * sizeof(float))");
    EXPECT_EQ(chosen.tensors().at(0).reference, "r");
    EXPECT_EQ(alignment(chosen.variant()), 16u);
    EXPECT_EQ(alignment(chosen.variant({{"VEC", 1}})), 4u);
    EXPECT_THROW(chosen.variant({{"VEC", 3}}), VariantError) << "12 is no power of two";
    EXPECT_EQ(
        alignment(make("", "int m, int n, float* c", std::string(kSize) + "//@ output c [m, n]\n").variant()),
        4u);
    EXPECT_EQ(
        alignment(make("", "int m, int n, double* c", std::string(kSize) + "//@ output c [m, n] align 2\n")
                      .variant()),
        8u)
        << "no less than its elements need";
    const auto inout =
        make("", "int m, int n, int* c", std::string(kSize) + "//@ inout c [m] align 32 in 0..9\n");
    EXPECT_EQ(alignment(inout.variant()), 32u);
    EXPECT_EQ(inout.tensors().at(0).fill_text, "in 0..9");
    EXPECT_EQ(
        alignment(make("", "int m, int n, int* c", std::string(kSize) + "//@ scratch c [m] align 64 = 0\n")
                      .variant()),
        64u);
}

TEST(TemplateAlign, IsThatOfTmaForTensorsWithMaps) {
    const auto mapped =
        make("", "int m, int n, float* c, const __grid_constant__ kiln::TensorMap c_map",
             std::string(kSize) + "//@ output c [m, n]\n//@ tensormap c_map = c [m, n] box [8, 8]\n");
    EXPECT_EQ(alignment(mapped.variant()), 16u);
    EXPECT_EQ(pointer_arguments(mapped.variant()).at(0).argument, 2u);
}

TEST(TemplateAlign, IsKnownBeforeALaunch) {
    const auto with = [](const std::string& align) {
        return template_text("", "int m, int n, float* c",
                             std::string(kSize) + "//@ output c [m, n] align " + align + "\n");
    };
    expect_template_error(with("4 * n"), 6, 31, "n");
    expect_template_error(with("float"), 6, 27, "expected a number");
    EXPECT_THROW(Template::parse(with("12"), "k.cu").variant(), VariantError);
}

}  // namespace
}  // namespace kiln
