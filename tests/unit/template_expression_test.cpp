// SPDX-License-Identifier: Apache-2.0
//
// Expressions: values, precedence against C++'s own, overflow, errors with their columns.
#include <limits>

#include "template/expression_parser.h"
#include "template/launch_program.h"
#include "template_support.h"

namespace kiln {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

/// Parameters A = 7, B = 3, FLAG = true, T = float; arguments m (int) and n (unsigned long long).
class ExpressionTest : public testing::Test {
  protected:
    ExpressionTest() {
        for (const char* name : {"A", "B"}) {
            parameters_.push_back({});
            parameters_.back().name = name;
        }
        parameters_.push_back({});
        parameters_.back().name = "FLAG";
        parameters_.back().kind = ParameterKind::boolean;
        parameters_.push_back({});
        parameters_.back().name = "T";
        parameters_.back().kind = ParameterKind::type;
        scope_.parameters = &parameters_;
        scope_.arguments = &arguments_;
        scope_.may_use_arguments = true;
    }

    ExpressionPtr parse(const std::string& text) {
        const std::string file = "f.cu";
        Lexer lexer(text, 0, file, 1);
        ExpressionPtr expression = parse_expression(lexer, scope_);
        lexer.expect_end("the expression");
        return expression;
    }

    Environment environment() { return {codes_, &limits_, pointers_}; }

    /// By the tree and by the launch program, which must agree.
    std::int64_t value(const std::string& text) {
        Failure failure;
        const ExpressionPtr expression = parse(text);
        const std::int64_t result = expression->evaluate(environment(), failure);
        EXPECT_FALSE(failure) << text << ": " << failure.text();
        bool failed = false;
        EXPECT_EQ(LaunchProgram(*expression, environment()).run(environment(), failed), result) << text;
        EXPECT_FALSE(failed) << text;
        return result;
    }

    std::string failure(const std::string& text) {
        Failure failure;
        const ExpressionPtr expression = parse(text);
        expression->evaluate(environment(), failure);
        bool failed = false;
        LaunchProgram(*expression, environment()).run(environment(), failed);
        EXPECT_TRUE(failed) << text;
        return failure.text();
    }

    void expect_error(const std::string& text, int column, const std::string& part) {
        try {
            parse(text);
            ADD_FAILURE() << "no error for " << text;
        } catch (const TemplateError& error) {
            EXPECT_EQ(error.column(), column) << text << ": " << error.what();
            EXPECT_THAT(error.what(), HasSubstr(part)) << text;
        }
    }

    std::vector<Parameter> parameters_;
    std::vector<Scope::Argument> arguments_{{"m", "int", ArgumentFormat::i32},
                                            {"n", "unsigned long long", ArgumentFormat::u64},
                                            {"x", "float", std::nullopt}};
    Scope scope_;
    std::vector<std::int64_t> codes_{7, 3, 1, 2};
    Limits limits_;
    int m_ = -5;
    unsigned long long n_ = 1000;
    void* pointers_[3] = {&m_, &n_, nullptr};
};

// The same text for Kiln and for this C++ compiler.
#define EXPECT_AS_IN_CPP(expression) \
    EXPECT_EQ(value(#expression), static_cast<std::int64_t>(expression)) << #expression

TEST_F(ExpressionTest, PrecedenceAndAssociativityAsInCpp) {
    constexpr long long A = 7, B = 3;
    constexpr bool FLAG = true;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wparentheses"
    EXPECT_AS_IN_CPP(A + B * 2);
    EXPECT_AS_IN_CPP((A + B) * 2);
    EXPECT_AS_IN_CPP(A - B - 1);
    EXPECT_AS_IN_CPP(A / B / 2);
    EXPECT_AS_IN_CPP(100 / A * B % 5);
    EXPECT_AS_IN_CPP(-A / B);
    EXPECT_AS_IN_CPP(-A % B);
    EXPECT_AS_IN_CPP(A % -B);
    EXPECT_AS_IN_CPP(- -A);
    EXPECT_AS_IN_CPP(!A + 1);
    EXPECT_AS_IN_CPP(!!FLAG);
    EXPECT_AS_IN_CPP(A < B == false);
    EXPECT_AS_IN_CPP(1 < 2 && 3 > 4 || 5 >= 5);
    EXPECT_AS_IN_CPP(1 || 0 && 0);
    EXPECT_AS_IN_CPP((1 || 0) && 0);
    EXPECT_AS_IN_CPP(A != B == 1);
    EXPECT_AS_IN_CPP(A <= 7 ? B : 2);
    EXPECT_AS_IN_CPP(A > 7 ? 1 : B > 2 ? 20 : 30);
    EXPECT_AS_IN_CPP((A > 1 ? B : 2) + 1);
    EXPECT_AS_IN_CPP(A > 1 ? B : 2 + 1);
    EXPECT_AS_IN_CPP(FLAG * 4 + A);
    EXPECT_AS_IN_CPP(A + B > 9 && A - B == 4);
    EXPECT_AS_IN_CPP(9223372036854775807 - 1);
    EXPECT_AS_IN_CPP(-9223372036854775807 - 1);
#pragma GCC diagnostic pop
}

TEST_F(ExpressionTest, Functions) {
    EXPECT_EQ(value("ceil_div(7, 3)"), 3);
    EXPECT_EQ(value("ceil_div(6, 3)"), 2);
    EXPECT_EQ(value("ceil_div(0, 3)"), 0);
    EXPECT_EQ(value("ceil_div(-7, 3)"), -2);
    EXPECT_EQ(value("ceil_div(-7, -3)"), 3);
    EXPECT_EQ(value("ceil_div(7, -3)"), -2);
    EXPECT_EQ(value("ceil_div(9223372036854775807, 64)"), kMax / 64 + 1);
    EXPECT_EQ(value("ceil_div(4294967295, 64)"), 67108864);
    EXPECT_EQ(value("4294967296 / 64"), 67108864);
    EXPECT_EQ(value("4294967296 % 64"), 0);
    EXPECT_EQ(value("1001 % 64"), 1001 % 64);
    EXPECT_EQ(value("min(A, B) * 10 + max(A, B)"), 37);
    EXPECT_EQ(value("is_pow2(64)"), 1);
    EXPECT_EQ(value("is_pow2(0)"), 0);
    EXPECT_EQ(value("is_pow2(-2)"), 0);
    EXPECT_EQ(value("is_pow2(12)"), 0);
    EXPECT_EQ(value("is_pow2(A + 1)"), 1);
}

TEST_F(ExpressionTest, TypesLimitsAndArguments) {
    EXPECT_EQ(value("sizeof(T)"), 4);
    EXPECT_EQ(value("sizeof(half) + 10 * sizeof(double)"), 82);
    EXPECT_EQ(value("sizeof(int) * sizeof(bfloat16)"), 8);
    EXPECT_EQ(value("T == float"), 1);
    EXPECT_EQ(value("T == half"), 0);
    EXPECT_EQ(value("half != T"), 1);
    EXPECT_EQ(value("device.threads_per_block"), 1024);
    EXPECT_EQ(value("device.grid_y + device.warp_size"), 65535 + 32);
    EXPECT_EQ(value("m * 2"), -10);
    EXPECT_EQ(value("ceil_div(n, A)"), 143);
    EXPECT_EQ(value("n > 0 ? n / A : 1"), 142);
    EXPECT_EQ(value("true"), 1);
    EXPECT_EQ(parse("  A  + B ")->text(), "A  + B");
    n_ = 1ull << 63;
    EXPECT_EQ(failure("n"), "n overflows 64 bits");
}

TEST_F(ExpressionTest, EveryArgumentFormat) {
    const auto read = [&](ArgumentFormat format, auto stored) {
        arguments_[0].format = format;
        pointers_[0] = &stored;
        return value("m");
    };
    EXPECT_EQ(read(ArgumentFormat::i8, static_cast<signed char>(-3)), -3);
    EXPECT_EQ(read(ArgumentFormat::u8, static_cast<unsigned char>(250)), 250);
    EXPECT_EQ(read(ArgumentFormat::i16, static_cast<short>(-300)), -300);
    EXPECT_EQ(read(ArgumentFormat::u16, static_cast<unsigned short>(65000)), 65000);
    EXPECT_EQ(read(ArgumentFormat::i32, -70000), -70000);
    EXPECT_EQ(read(ArgumentFormat::u32, 4000000000u), 4000000000);
    EXPECT_EQ(read(ArgumentFormat::i64, kMin), kMin);
    EXPECT_EQ(read(ArgumentFormat::u64, static_cast<unsigned long long>(kMax)), kMax);
    EXPECT_EQ(read(ArgumentFormat::boolean, true), 1);
}

TEST_F(ExpressionTest, OverflowAndDivisionByZero) {
    EXPECT_EQ(failure("9223372036854775807 + 1"), "9223372036854775807 + 1 overflows 64 bits");
    EXPECT_EQ(failure("0 - 9223372036854775807 - 2"), "0 - 9223372036854775807 - 2 overflows 64 bits");
    EXPECT_EQ(failure("A * (4611686018427387904 * B)"), "(4611686018427387904 * B) overflows 64 bits");
    EXPECT_EQ(failure("-(-9223372036854775807 - 1)"), "-(-9223372036854775807 - 1) overflows 64 bits");
    EXPECT_EQ(failure("(-9223372036854775807 - 1) / -1"),
              "(-9223372036854775807 - 1) / -1 overflows 64 bits");
    EXPECT_EQ(value("(-9223372036854775807 - 1) % -1"), 0);
    EXPECT_EQ(failure("1 + A / (B - 3)"), "A / (B - 3) divides by zero");
    EXPECT_EQ(failure("A % (B - 3)"), "A % (B - 3) divides by zero");
    EXPECT_EQ(failure("ceil_div(m, B - 3)"), "ceil_div(m, B - 3) divides by zero");
    EXPECT_EQ(value("B == 3 || A / (B - 3) > 1"), 1);
    EXPECT_EQ(value("B != 3 && A / (B - 3) > 1"), 0);
    EXPECT_EQ(value("B == 3 ? 5 : A / (B - 3)"), 5);
}

TEST_F(ExpressionTest, Errors) {
    expect_error("", 1, "expected a number, a name or (, found the end of the line");
    expect_error("1 +", 4, "found the end of the line");
    expect_error("(1 + 2", 7, "expected )");
    expect_error("1 ? 2", 6, "expected :");
    expect_error("AA + 1", 1, "the name AA is not known here");
    expect_error("1 + FLAGG", 5, "did you mean FLAG?");
    expect_error("ceil_dvi(1, 2)", 1, "did you mean ceil_div?");
    expect_error("ceil_div(1)", 11, "expected , in ceil_div(a, b)");
    expect_error("min(1, 2, 3)", 9, "expected ) at the end of min(a, b)");
    expect_error("is_pow2 3", 9, "used as is_pow2(x)");
    expect_error("device", 7, "expected . after device");
    expect_error("device.warpsize", 8, "did you mean warp_size?");
    expect_error("device.foo", 8, "the limits are threads_per_block");
    expect_error("sizeof(A)", 8, "sizeof takes a type parameter or a type name, found A");
    expect_error("sizeof(3)", 8, "found 3");
    expect_error("sizeof T", 8, "expected (");
    expect_error("T + 1", 3, "a type can only be compared");
    expect_error("T < half", 3, "a type can only be compared");
    expect_error("A == half", 3, "a type can't be compared with a number");
    expect_error("-T", 1, "a type can only be compared");
    expect_error("T ? 1 : 2", 3, "a type can only be compared");
    expect_error("min(T, 1)", 1, "a type can only be compared");
    expect_error("9223372036854775808", 1, "does not fit 64 bits");
    expect_error("64u", 1, "64u is not a decimal integer");
    expect_error("+1", 1, "leading +");
    expect_error("A @ B", 3, "@ has no meaning");
    expect_error("A & B", 3, "& has no meaning");
    expect_error("x + 1", 1, "only use integer arguments");
    expect_error(std::string(500, '(') + "1", 101, "nested");
    expect_error(std::string(500, '-') + "1", 100, "nested");
    std::string deep_sizeof;
    for (int i = 0; i < 500; ++i) deep_sizeof += "sizeof(";
    expect_error(deep_sizeof, 7 * 99 + 1, "nested");
    std::string sum = "1";
    for (int i = 0; i < 600; ++i) sum += "+1";
    expect_error(sum, 1000, "more than 1000 terms");
}

TEST_F(ExpressionTest, FoldingLeavesOnlyArguments) {
    const Expression folded =
        parse("ceil_div(n, A * B + sizeof(T)) + device.warp_size * 2")->fold(environment());
    // n, 25, ceil_div, 64, +
    EXPECT_EQ(folded.nodes().size(), 5u);
    Failure failure;
    EXPECT_EQ(folded.evaluate(environment(), failure), 1000 / 25 + 64);
    EXPECT_EQ(parse("A * B > 20 && T == float")->fold(environment()).nodes().size(), 1u);
}

TEST_F(ExpressionTest, DependsOn) {
    EXPECT_EQ(parse("B + A * B")->parameters(), (std::vector<int>{1, 0}));
    EXPECT_TRUE(parse("A < device.warp_size")->needs_device());
    EXPECT_FALSE(parse("A < 32")->needs_device());
}

}  // namespace
}  // namespace kiln
