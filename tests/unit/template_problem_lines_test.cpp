// SPDX-License-Identifier: Apache-2.0
//
// Every error of the lines that say what a launch works on, with its line and column.
#include "template_support.h"

namespace kiln {
namespace {

using test::expect_template_error;
using test::template_text;

constexpr const char* kArguments =
    "int m, long n, const T* a, const int* index, float* c, bool flag, float alpha, "
    "void* any, float** rows, Pair* pairs, const bool* mask";
constexpr const char* kParameters = "//@ param T type in half, float = half\n//@ param N int in 1, 2 = 1\n";

/// `line` is put in as line 4.
void expect_problem_error(const std::string& line, int column, const std::string& part) {
    expect_template_error(template_text(kParameters + line + "\n", kArguments), 4, column, part);
}

TEST(ProblemLines, Sizes) {
    expect_problem_error("//@ size", 9,
                         "expected an integer argument of the kernel, found the end of the line");
    expect_problem_error("//@ size mm = 1", 10, "k has no argument mm; did you mean m?");
    expect_problem_error("//@ size whatever = 1", 10, "k has no argument whatever; there are m, n");
    expect_problem_error("//@ size N = 1", 10, "k has no argument N; there are m, n");
    expect_problem_error("//@ size a = 1", 10, "a size is an integer argument of the kernel; a is const T*");
    expect_problem_error("//@ size alpha = 1", 10,
                         "a size is an integer argument of the kernel; alpha is float");
    expect_problem_error("//@ size flag = 1", 10,
                         "a size is an integer argument of the kernel; flag is bool");
    expect_problem_error("//@ size m", 11, "expected = and the default of m, found the end of the line");
    expect_problem_error("//@ size m = T", 14, "expected a number, found the type T");
    expect_problem_error(
        "//@ size m = n", 14,
        "the argument n has no value yet; a line //@ size n = EXPRESSION above gives it one");
    expect_problem_error("//@ size m = 1 test n", 21, "the argument n has no value yet");
    expect_problem_error("//@ size m = 1 tests 2", 16, "unexpected tests after the size");
    expect_problem_error("//@ size m = 1 test 2 \"x\" 3", 27, "unexpected 3 after the size");
    expect_problem_error("//@ size m = 1 multiple T", 25, "expected a number, found the type T");
    expect_problem_error("//@ size m = 1 multiple n", 25, "the argument n has no value yet");
    expect_problem_error("//@ size m = 1 multiple 2 test 3", 27, "unexpected test after the size");
    expect_problem_error("//@ size m = 1 at_most n", 24, "the argument n has no value yet");
    expect_problem_error("//@ size m = 1 at_most 3 multiple 2", 26, "unexpected multiple after the size");
    expect_template_error(template_text("//@ size m = 1\n//@ size n = 1\n//@ size m = 2\n"), 4, 10,
                          "a second line for m; the first is on line 2");
    expect_template_error(template_text("//@ size m = n\n//@ size n = 1\n"), 2, 14,
                          "the argument n has no value yet");
    expect_template_error(template_text("", "int m, float* c", "//@ block m\n//@ grid m\n"), 2, 11,
                          "known only at launch; only grid and what depends on sizes may use it");
    expect_template_error(template_text("", "int n, float* c", "//@ block 1\n//@ grid c\n"), 3, 10,
                          "the argument c is float*; expressions may only use integer arguments");
}

TEST(ProblemLines, Tensors) {
    expect_problem_error("//@ input", 10,
                         "expected a pointer argument of the kernel, found the end of the line");
    expect_problem_error("//@ input indx [N] in 0..1", 11, "k has no argument indx; did you mean index?");
    expect_problem_error("//@ input m [N]", 11,
                         "the argument m is int; this line is for a pointer to elements");
    expect_problem_error("//@ output rows [N]", 12,
                         "the argument rows is float**; this line is for a pointer to elements");
    expect_problem_error("//@ output any [N]", 12,
                         "the elements of any are void, whose size is not known; a type "
                         "parameter will do, or one of half, bfloat16, float, double, bool, "
                         "signed char, short, int, unsigned int, unsigned char, unsigned "
                         "short, long long, unsigned long long");
    expect_problem_error("//@ output pairs [N]", 12,
                         "the elements of pairs are Pair, whose size is not known");
    expect_problem_error(
        "//@ output pairs [N]", 12,
        "unsigned long long. Aliases are not followed. Of vectors declare the elements and cast "
        "the pointer: reinterpret_cast<const float4*>(x) of a float* x with 'align 16'");
    expect_problem_error(
        "//@ input c [N]", 11,
        "an input is a pointer to const; c is float*, through which the kernel may write: declare it "
        "const, or write inout");
    for (const std::string directive : {"output", "inout", "scratch"})
        expect_problem_error(
            "//@ " + directive + " a [N]", 6 + static_cast<int>(directive.size()),
            "what is behind a, which is const T*, can't be written; this should be an input line");
    expect_problem_error("//@ input a", 12, "expected [ and the extents of a, found the end of the line");
    expect_problem_error("//@ input a []", 14, "expected a number, a name or (, found ]");
    expect_problem_error("//@ input a [N, ]", 17, "expected a number, a name or (, found ]");
    expect_problem_error("//@ input a [N", 15, "expected ] that closes the [, found the end of the line");
    expect_problem_error("//@ input a [m]", 14, "the argument m has no value yet");
    expect_problem_error("//@ input a [T]", 14, "expected a number, found the type T");
    expect_problem_error("//@ input a [N] by r", 17, "unexpected by after the input");
    expect_problem_error("//@ input a [N] = 0", 17, "unexpected = after the input");
    expect_problem_error("//@ output c [N] = 0", 18, "unexpected = after the output");
    expect_problem_error("//@ output c [N] in 0..1", 18, "unexpected in after the output");
    expect_problem_error("//@ output c [N] exact", 18, "unexpected exact after the output");
    expect_problem_error("//@ scratch c [N] by r", 19, "unexpected by after the scratch");
    expect_problem_error("//@ scratch c [N] in 0..1", 19, "unexpected in after the scratch");
    expect_problem_error("//@ scratch c [N] = 1", 21,
                         "expected 0 which is all that memory can be set to, found 1");
    expect_problem_error("//@ inout c [N] in 0", 21,
                         "expected .. and the largest value of c, found the end of the line");
    expect_problem_error("//@ output c [N] by", 20,
                         "expected the template that computes what is expected, found the end of the line");
    expect_problem_error("//@ output c [N] by k", 21, "a template can't be its own reference");
    expect_problem_error("//@ input a [N] permutation", 17,
                         "a permutation is one of integers; a can be half");
    expect_problem_error("//@ input mask [N] permutation", 20,
                         "a permutation is one of integers; mask can be bool");
    expect_problem_error("//@ input index [N]", 20,
                         "expected in LO..HI, permutation or offsets to N, found the end of the line: index "
                         "can be int, and only "
                         "floating-point numbers and 8-bit integers have values that are always fine");
    expect_problem_error(
        "//@ input mask [N] \"which\"", 20,
        "expected in LO..HI, permutation or offsets to N, found the text \"which\": mask can be bool");
    expect_template_error(template_text("//@ output c [1]\n//@ inout c [1]\n"), 3, 11,
                          "a second line for c; the first is on line 2");
    expect_template_error(
        template_text("//@ param T type in half, int = half\n//@ input a [1]\n", "int n, const T* a"), 3, 16,
        "a can be int, and only floating-point");
}

TEST(ProblemLines, FiguresAndNaive) {
    expect_problem_error("//@ flops", 10, "expected a number, a name or (, found the end of the line");
    expect_problem_error("//@ flops 1 2", 13, "unexpected 2 after the operations");
    expect_problem_error("//@ bytes 1, 2", 12, "unexpected , after the bytes");
    expect_problem_error("//@ flops m", 11, "the argument m has no value yet");
    expect_problem_error("//@ flops T", 11, "expected a number, found the type T");
    expect_problem_error("//@ naive 3", 11,
                         "expected the template whose speed this one's is compared with, found 3");
    expect_problem_error("//@ naive k", 11, "a template can't be compared with itself");
    expect_problem_error("//@ naive other x", 17, "unexpected x after the template's name");
    for (const std::string line : {"flops 1", "bytes 1", "naive r"})
        expect_template_error(template_text("//@ " + line + "\n//@ " + line + "\n"), 3, 5,
                              "a second " + line.substr(0, 5) + " line; the first is on line 2");
    expect_problem_error("//@ floops 1", 5, "unknown directive floops; did you mean flops?");
}

void expect_map_error(const std::string& line, int column, const std::string& part,
                      const std::string& arguments = "int m, const half* a, kiln::TensorMap map") {
    expect_template_error(
        template_text("//@ param N int in 8, 16 = 8\n" + line + "\n", arguments, "//@ block 1\n//@ grid 1\n"),
        3, column, part);
}

TEST(ProblemLines, TensorMaps) {
    expect_map_error("//@ tensormap mop = a [N] box [N]", 15, "k has no argument mop; did you mean map?");
    expect_map_error("//@ tensormap a = a [N] box [N]", 15,
                     "the argument a is const half*; a tensor map is a kiln::TensorMap");
    expect_map_error("//@ tensormap map a", 19, "expected = and the pointer argument that it maps, found a");
    expect_map_error("//@ tensormap map = b [N] box [N]", 21, "k has no argument b; there are a");
    expect_map_error("//@ tensormap map = m [N] box [N]", 21,
                     "the argument m is int; this line is for a pointer");
    expect_map_error("//@ tensormap map = a box [N]", 23, "expected [ and the extents of a, found box");
    expect_map_error("//@ tensormap map = a [N]", 26,
                     "expected box and the box that is moved at a time, found the end");
    expect_map_error("//@ tensormap map = a [1,1,1,1,1,1] box [N]", 23,
                     "a tensor map has at most five extents");
    expect_map_error("//@ tensormap map = a [N, m] box [N]", 34,
                     "the box must have as many extents as a, 2, and has 1");
    expect_map_error(
        "//@ tensormap map = a [N] box [m]", 32,
        "m is an argument of the kernel, known only at launch; only grid and what depends on sizes may "
        "use it");
    expect_map_error("//@ tensormap map = a [N] box [N] swizzle m", 43,
                     "m is an argument of the kernel, known only");
    expect_map_error("//@ tensormap map = a [N] box [N] swizzled", 35,
                     "unexpected swizzled after the tensor map");
    const std::string shape = "//@ block 1\n//@ grid 1\n";
    expect_template_error(
        template_text("", "const half* a, kiln::TensorMap map", shape), 4, 28,
        "the argument map is a kiln::TensorMap; a line //@ tensormap map = TENSOR [EXTENTS] box "
        "[EXTENTS] must say of what");
    expect_template_error(
        template_text("", "TensorMap map, const half* a", shape), 4, 28,
        "the argument map is a kiln::TensorMap and must come after a: tensor maps are made at "
        "launch, behind the arguments that are passed");
}

constexpr const char* kReferenceArguments =
    "long long count, const long long* which, double* expected, double* bound, int n, const float* x, "
    "const int* index";

void expect_data_error(const std::string& line, int column, const std::string& part) {
    expect_template_error(template_text(line + "\n", kReferenceArguments, "//@ block 1\n//@ grid count\n"), 2,
                          column, part);
}

TEST(ProblemLines, Data) {
    expect_data_error("//@ data", 9, "expected a pointer argument of the kernel");
    expect_data_error("//@ data y term n", 10, "k has no argument y");
    expect_data_error("//@ data n term n", 10, "the argument n is int; this line is for a pointer");
    expect_data_error("//@ data index term n", 10,
                      "patterns are of floating-point elements; index can be int");
    expect_data_error("//@ data x", 11,
                      "expected a pattern (factor, term, peaks, key, query, shifted_peaks)");
    expect_data_error("//@ data x terms n", 12, "unknown pattern terms; did you mean term?");
    expect_data_error("//@ data x term", 16, "expected a number, a name or (, found the end of the line");
    expect_data_error("//@ data x term n 2", 19, "unexpected 2 after the pattern's size");
    expect_template_error(template_text("//@ data c term n\n"), 2, 5,
                          "a data line belongs in the reference, whose bound must fit what it says");
}

TEST(ProblemLines, AReferenceNamesWhatOnlyItsBoundDependsOn) {
    const std::string parameter = "//@ param DEPTH int in 1..9 = 1\n", end = "//@ block 1\n//@ grid count\n";
    const Template of = test::make(parameter + "//@ bound DEPTH\n", kReferenceArguments, end);
    EXPECT_EQ(of.bound_parameters(), std::vector<std::string>{"DEPTH"});
    expect_data_error("//@ bound DEPTH", 11, "DEPTH is no parameter of this template");
    expect_template_error(template_text(parameter + "//@ bound DEPTH\n"), 3, 5,
                          "a bound line belongs in the reference, which computes the bound");
}

TEST(ProblemLines, DataIsOfTheSizesOfATestedTemplate) {
    const Variant variant =
        test::make("//@ data x term 2 * n\n", kReferenceArguments, "//@ block 1\n//@ grid count\n").variant();
    const std::vector<InputPattern> patterns = variant.input_patterns({{"n", 21}, {"m", 3}});
    ASSERT_EQ(patterns.size(), 1u);
    EXPECT_EQ(patterns[0].tensor, "x");
    EXPECT_EQ(patterns[0].pattern, Pattern::term);
    EXPECT_EQ(patterns[0].size, 42);
    EXPECT_TRUE(variant.input_patterns({{"n", 0}}).empty()) << "nothing contributes";
    EXPECT_THAT(test::variant_error([&] {
                    variant.input_patterns({{"n", -1}});
                }),
                testing::HasSubstr("the pattern of x can't be negative, and is -2"));
}

}  // namespace
}  // namespace kiln
