// SPDX-License-Identifier: Apache-2.0
//
// The C library's names on the host against CUDA's overloads of them: the same table of types is compiled by the host's
// compiler and, where it is there, by NVRTC. Then integers and packed words against plain C++.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "host_kernel.h"
#include "require.h"

namespace kiln {
namespace {

using test::HostKernel;

using Names = std::vector<std::string>;

const Names kOfOne = {"sin",     "cos",    "tan",    "asin",  "acos",  "atan",      "sinh",  "cosh",  "tanh",
                      "asinh",   "acosh",  "atanh",  "sinpi", "cospi", "exp",       "exp2",  "exp10", "expm1",
                      "log",     "log2",   "log10",  "log1p", "logb",  "sqrt",      "rsqrt", "cbrt",  "rcbrt",
                      "floor",   "ceil",   "trunc",  "round", "rint",  "nearbyint", "fabs",  "erf",   "erfc",
                      "normcdf", "tgamma", "lgamma", "j0",    "j1",    "y0",        "y1"};
const Names kOfTwo = {"pow", "fmod", "remainder", "atan2", "hypot", "fdim", "fmin", "fmax", "nextafter"};
const Names kKinds = {"isnan", "isinf", "isfinite", "signbit"};

/// Names whose overloads take one number alone.
Names alone() {
    Names names = kOfOne;
    names.insert(names.end(), kKinds.begin(), kKinds.end());
    names.insert(names.end(), {"ilogb", "lrint", "lround", "llrint", "llround"});
    return names;
}

constexpr const char* kVariables = R"(
template <class A, class B> constexpr bool kSame = false;
template <class A> constexpr bool kSame<A, A> = true;
struct Number { float value; __device__ operator float() const { return value; } };
extern "C" __global__ void kernel(int i, unsigned u, long l, long long ll, unsigned long long ull, short s, float f, double d,
                                  Number v, int* pi, float* pf, double* pd, const char* text) {
)";

/// One line for each expression, from the line `kFirstLine` on.
constexpr int kFirstLine = 8;
std::string kernel_of(const Names& statements) {
    std::string text = kVariables;
    for (const std::string& statement : statements) text += statement + ";\n";
    return text + "}\n";
}

Names types() {
    Names lines;
    const auto is = [&](const std::string& expression, const std::string& type) {
        lines.push_back("static_assert(kSame<decltype(" + expression + "), " + type + ">, \"" + expression +
                        "\")");
    };
    const auto both = [&](const std::string& call, const std::string& of_float,
                          const std::string& of_double) {
        for (const auto& [letter, type] : {std::pair("f", of_float), {"d", of_double}, {"v", of_float}}) {
            std::string expression = call;
            expression.replace(expression.find('?'), 1, letter);
            is(expression, type);
        }
    };
    for (const std::string& name : kOfOne) both(name + "(?)", "float", "double");
    for (const std::string& name : kKinds) both(name + "(?)", "int", "int");
    both("ilogb(?)", "int", "int");
    for (const char* const name : {"lrint(?)", "lround(?)"}) both(name, "long", "long");
    for (const char* const name : {"llrint(?)", "llround(?)"}) both(name, "long long", "long long");
    for (const std::string& name : kOfTwo) {
        for (const char* const call : {"(f, f)", "(f, i)", "(i, f)", "(v, f)"}) is(name + call, "float");
        for (const char* const call : {"(d, d)", "(d, i)", "(i, d)"}) is(name + call, "double");
    }
    for (const char* const call : {"ldexp(?, i)", "ldexp(?, l)", "scalbn(?, i)", "scalbln(?, l)",
                                   "frexp(?, pi)", "jn(i, ?)", "yn(i, ?)", "pow(?, s)", "abs(?)"})
        both(call, "float", "double");
    is("copysign(f, f)", "float");
    for (const char* const call :
         {"copysign(d, d)", "copysign(f, d)", "copysign(d, f)", "modf(d, pd)", "modf(f, pd)",
          "remquo(d, d, pi)", "fma(d, d, d)", "min(f, d)", "max(d, f)", "nan(text)", "norm3d(f, f, f)",
          "norm4d(d, d, d, d)", "rhypot(d, d)", "rnorm3d(d, d, d)"})
        is(call, "double");
    for (const char* const call :
         {"modf(f, pf)", "remquo(f, f, pi)", "fma(f, f, f)", "fma(f, f, i)", "nanf(text)", "norm3df(f, f, f)",
          "norm4df(f, f, f, f)", "rhypotf(f, f)", "rnorm3df(f, f, f)", "__ldcs(pf)", "__ldcg(pf)",
          "__ldca(pf)", "__ldlu(pf)", "__ldcv(pf)"})
        is(call, "float");
    for (const char* const call :
         {"abs(i)", "abs(s)", "__sad(i, i, u) - u + i", "__dp4a(i, i, i)", "__hadd(i, i)"})
        is(call, call[2] == 's' && call[3] == 'a' ? "unsigned" : "int");
    for (const char* const call : {"__dp4a(u, u, u)", "__usad(u, u, u)", "__umul24(u, u)", "__brev(u)"})
        is(call, "unsigned");
    is("abs(l)", "long");
    is("abs(ll)", "long long");
    lines.insert(lines.end(), {"sincos(f, pf, pf)", "sincos(d, pd, pd)", "sincospi(f, pf, pf)"});
    for (const char* const name : {"__stcs", "__stcg", "__stwb", "__stwt"})
        lines.push_back(std::string(name) + "(pf, f)");
    return lines;
}

/// Calls that are ambiguous.
Names ambiguous() {
    Names calls;
    for (const std::string& name : alone())
        for (const char* const argument : {"i", "ull"}) calls.push_back(name + "(" + argument + ")");
    for (const std::string& name : kOfTwo)
        for (const char* const arguments : {"(f, d)", "(d, f)", "(i, i)"}) calls.push_back(name + arguments);
    calls.insert(calls.end(),
                 {"abs(u)", "abs(ull)", "fma(f, f, d)", "fma(i, i, i)", "ldexp(i, i)", "frexp(i, pi)",
                  "remquo(f, d, pi)", "pow(f, u)", "pow(d, ll)", "copysign(f, i)"});
    return calls;
}

std::string log_of(Compiler& compiler, const Target& target, const std::string& text) {
    try {
        compiler.compile(test::prelude_source("kernel", text), target);
    } catch (const BuildError& error) {
        return std::string(error.what()) + error.log();
    }
    return "";
}

/// Compiles them a few at a time, since compilers end after some errors, and expects one at the line of each.
void expect_errors(Compiler& compiler, const Target& target, const Names& calls, const Names& marks) {
    constexpr std::size_t kMost = 12;
    for (std::size_t first = 0; first < calls.size(); first += kMost) {
        const Names part(calls.begin() + static_cast<std::ptrdiff_t>(first),
                         calls.begin() + static_cast<std::ptrdiff_t>(std::min(calls.size(), first + kMost)));
        const std::string log = log_of(compiler, target, kernel_of(part));
        for (std::size_t i = 0; i < part.size(); ++i) {
            const std::string line = std::to_string(kFirstLine + static_cast<int>(i));
            EXPECT_TRUE(log.find("kernel.cu" + marks[0] + line + marks[1]) != log.npos) << part[i] << "\n"
                                                                                        << log;
        }
    }
}

TEST(HostOverloads, HaveCudasTypes) {
    const auto compiler = make_host_compiler(WorkerLimits{});
    EXPECT_EQ(log_of(*compiler, {Backend::host, host_arch(), {}}, kernel_of(types())), "");
}

TEST(HostOverloads, AreAmbiguousWhereCudasAre) {
    const auto compiler = make_host_compiler(WorkerLimits{});
    expect_errors(*compiler, {Backend::host, host_arch(), {}}, ambiguous(), {":", ":"});
}

TEST(HostOverloads, AreThoseOfNvrtc) {
    const auto compiler = make_nvrtc_compiler();
    std::string missing;
    try {
        compiler->description();
    } catch (const BuildError& error) {
        missing = error.what();
    }
    KILN_REQUIRE_OR_SKIP("nvrtc", missing.empty(), missing);
    EXPECT_EQ(log_of(*compiler, {Backend::cuda, "sm_90a", {}}, kernel_of(types())), "");
    expect_errors(*compiler, {Backend::cuda, "sm_90a", {}}, ambiguous(), {"(", ")"});
}

// sinpi() and others that C lacks are tested below.
TEST(HostOverloads, OfFloatsRoundToFloat) {
    std::string text =
        "extern \"C\" __global__ void kernel(const float* in, float* out, float* expected) {\n"
        "const float x = in[threadIdx.x], y = 1.25f; int n = 0, m = 0; float a, b, c, d;\n"
        "out += 64 * threadIdx.x; expected += 64 * threadIdx.x;\n";
    for (const std::string& name : kOfOne)
        text += "*out++ = " + name + "(x); *expected++ = " + name + "f(x);\n";
    for (const std::string& name : kOfTwo)
        text += "*out++ = " + name + "(x, y); *expected++ = " + name + "f(x, y);\n";
    text +=
        "*out++ = fma(x, x, -y); *expected++ = fmaf(x, x, -y); *out++ = ldexp(x, 3); *expected++ = 8 * x;\n"
        "*out++ = frexp(x, &n) + n; *expected++ = frexpf(x, &m) + m; *out++ = modf(x, &a) + a; *expected++ = "
        "x;\n"
        "*out++ = abs(-x); *expected++ = x; sincos(x, &a, &b); sincosf(x, &c, &d);\n"
        "*out++ = a + 2 * b; *expected++ = c + 2 * d; *out++ = pow(x, 3); *expected++ = float(double(x) * x "
        "* x);\n}\n";
    const HostKernel kernel(text);
    const std::array<float, 4> in = {0.1f, 0.75f, 1.3f, 2.7f};
    std::vector<float> out(4 * 64), expected(4 * 64);
    kernel({}, {4, 1, 1}, 0, in.data(), out.data(), expected.data());
    for (std::size_t i = 0; i < out.size(); ++i) {
        EXPECT_TRUE(out[i] == expected[i] || (std::isnan(out[i]) && std::isnan(expected[i])))
            << i << ": " << out[i] << " and " << expected[i];
    }
}

// A kernel that loses digits must lose them here too.
TEST(HostOverloads, DoNotComputeFloatsInDouble) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(float x, float* out, long long far) {
    out[0] = 1 - cos(x);
    out[1] = abs(3 * x);
    out[2] = float(abs(far));
    out[3] = kiln::max(fabs(x), 0.0f);
})");
    float out[4];
    kernel({}, {}, 0, 1e-4f, &out[0], -(1ll << 40));
    EXPECT_THAT(out, testing::ElementsAre(0.0f, 3 * 1e-4f, 0x1p40f, 1e-4f));
}

TEST(HostOverloads, HaveWhatCLacks) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(double x, double* out) {
    double s, c;
    sincospi(x, &s, &c);
    *out++ = sinpi(x); *out++ = cospi(x); *out++ = s; *out++ = c; *out++ = rcbrt(x); *out++ = normcdf(x);
    *out++ = norm3d(x, 2, 3); *out++ = norm4d(x, 2, 3, 4); *out++ = rhypot(x, 2); *out++ = rnorm3df(2, 3, 6);
    *out++ = norm3df(1e30f, 2e30f, 2e30f); *out++ = isnan(nan("")); *out++ = isnan(nanf("1"));
})");
    const double pi = std::acos(-1.0);
    for (const double x : {0.0, 0.25, 0.5, 1.0, 1.5, 1.75, -0.5, -1.25, 4.0 + 0x1p-30, 0x1p60 + 0.0}) {
        double out[13];
        kernel({}, {}, 0, x, &out[0]);
        const double turn = std::fmod(x, 2.0);
        EXPECT_NEAR(out[0], std::sin(pi * turn), 1e-15) << x;
        EXPECT_NEAR(out[1], std::cos(pi * turn), 1e-15) << x;
        EXPECT_EQ(out[2], out[0]);
        EXPECT_EQ(out[3], out[1]);
        EXPECT_EQ(out[4], 1 / std::cbrt(x));
        EXPECT_DOUBLE_EQ(out[5], std::erfc(-x / std::sqrt(2.0)) / 2);
        EXPECT_DOUBLE_EQ(out[6], std::hypot(x, 2, 3));
        EXPECT_DOUBLE_EQ(out[7], std::hypot(std::hypot(x, 2, 3), 4));
        EXPECT_EQ(out[8], 1 / std::hypot(x, 2));
        EXPECT_EQ(out[9], 1.0f / 7);
        EXPECT_FLOAT_EQ(static_cast<float>(out[10]), 3e30f);
        EXPECT_EQ(out[11] + out[12], 2);
        if (x == 1.0 || x == 0x1p60) {
            EXPECT_EQ(out[0], 0) << "whole half turns";
        }
    }
}

TEST(HostOverloads, ConvertDoublesAsPtxSays) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(const double* in, long long* out) {
    const double x = in[threadIdx.x];
    long long* o = out + 7 * threadIdx.x;
    *o++ = __double2int_rn(x); *o++ = __double2int_rz(x); *o++ = __double2int_rd(x); *o++ = __double2int_ru(x);
    *o++ = __double2uint_rn(x); *o++ = __double2ll_rn(x); *o++ = (long long)(__double2ull_rn(x) >> 1);
})");
    const std::vector<double> in = {-2.5, 1e30, -1e30, NAN};
    const long long lowest = std::numeric_limits<long long>::min(), largest = -(lowest + 1);
    const long long low = std::numeric_limits<int>::min(), high = std::numeric_limits<int>::max();
    const std::vector<long long> expected = {-2,   -2,   -3,   -2,   0,          -2,      0,        //
                                             high, high, high, high, 4294967295, largest, largest,  //
                                             low,  low,  low,  low,  0,          lowest,  0,        //
                                             low,  low,  low,  low,  2147483648, lowest,  1ll << 62};
    std::vector<long long> out(expected.size());
    kernel({}, {4, 1, 1}, 0, in.data(), out.data());
    EXPECT_EQ(out, expected);
}

TEST(HostOverloads, HaveIntegersAndPackedWords) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(int a, int b, unsigned long long* out) {
    const unsigned u = a, w = b;
    const int low = int(1u << 31), high = ~low;
    *out++ = __sad(low, high, 5u); *out++ = __usad(3u, 0xfffffff0u, 1u); *out++ = unsigned(__hadd(high, high - 2));
    *out++ = unsigned(__hadd(-3, 0)); *out++ = unsigned(__rhadd(-3, 0)); *out++ = __uhadd(~0u, ~0u - 2);
    *out++ = __urhadd(~0u, ~0u - 1); *out++ = __umul24(0xff000003u, 0x01000005u);
    *out++ = __mul64hi(-1ll << 40, 1ll << 40); *out++ = __funnelshift_lc(a, b, 40u); *out++ = __funnelshift_rc(a, b, 40u);
    *out++ = unsigned(__dp4a(a, b, 7)); *out++ = __dp4a(u, w, 7u); *out++ = unsigned(__dp2a_lo(a, b, 7));
    *out++ = unsigned(__dp2a_hi(a, b, 7)); *out++ = __dp2a_lo(u, w, 7u); *out++ = __dp2a_hi(u, w, 7u);
    *out++ = unsigned(__dp4a(char4{1, -2, 3, -4}, char4{5, 6, -7, 127}, 0));
    *out++ = unsigned(__dp2a_hi(short2{-300, 2}, char4{0, 0, 100, -1}, 0));
    *out++ = __dp2a_lo(ushort2{60000, 1}, uchar4{200, 3, 0, 0}, 0u);
})");
    const int a = static_cast<int>(0x80ff7f02u), b = static_cast<int>(0x7f80ff03u);
    const auto word = [](long long value) {
        return static_cast<unsigned long long>(static_cast<unsigned>(value));
    };
    std::vector<unsigned long long> out(20);
    kernel({}, {}, 0, a, b, out.data());
    EXPECT_THAT(out, testing::ElementsAreArray<unsigned long long>(
                         {word(0xffffffffll + 5),
                          word(0xfffffff0ll - 3 + 1),
                          0x7ffffffe,
                          word(-2),
                          word(-1),
                          0xfffffffe,
                          0xffffffff,
                          15,
                          static_cast<unsigned long long>(-1ll << 16),
                          word(a),
                          word(b),
                          word(2 * 3 + 127 * -1 + -1 * -128 + -128 * 127 + 7),
                          word(2 * 3 + 127 * 255 + 255 * 128 + 128 * 127 + 7),
                          word(0x7f02 * 3 + -0x7f01 * -1 + 7),
                          word(0x7f02 * -128 + -0x7f01 * 127 + 7),
                          word(0x7f02 * 3 + 0x80ff * 255 + 7),
                          word(0x7f02 * 128 + 0x80ff * 127 + 7),
                          word(5 - 12 - 21 - 508),
                          word(-30002),
                          word(60000 * 200 + 3)}));
}

}  // namespace
}  // namespace kiln
