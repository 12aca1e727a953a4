// SPDX-License-Identifier: Apache-2.0
//
// printable(), and formatted(): text as printf and std::to_string write it, which keys, tables and baselines depend on.
#include "format/format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "format/printable.h"

namespace kiln {
namespace {

std::string printed(const char* pattern, double value) {
    char text[512];
    std::snprintf(text, sizeof text, pattern, value);
    return text;
}

/// Numbers of every magnitude, ties of rounding among them.
std::vector<double> numbers() {
    std::vector<double> values = {0,
                                  -0.0,
                                  0.5,
                                  1.5,
                                  2.5,
                                  0.125,
                                  0.375,
                                  9.995,
                                  99.95,
                                  999.5,
                                  1e15,
                                  1e16,
                                  1e-5,
                                  1e300,
                                  5e-324,
                                  std::numeric_limits<double>::infinity(),
                                  -std::numeric_limits<double>::infinity()};
    std::mt19937_64 random(1);
    for (int i = 0; i < 3000; ++i) {
        values.push_back(std::bit_cast<double>(random()));
        values.push_back(
            std::ldexp(static_cast<double>(random() >> 40), static_cast<int>(random() % 60) - 40));
    }
    std::erase_if(values, [](double value) { return std::isnan(value); });
    return values;
}

TEST(Formatted, WritesFloatingPointNumbersAsPrintf) {
    for (const double value : numbers()) {
        EXPECT_EQ(formatted("{:.0f}", value), printed("%.0f", value));
        EXPECT_EQ(formatted("{:.2f}", value), printed("%.2f", value));
        EXPECT_EQ(formatted("{:>10.2f}", value), printed("%10.2f", value));
        EXPECT_EQ(formatted("{:+.1f}", value), printed("%+.1f", value));
        EXPECT_EQ(formatted("{:.{}f}", value, 3), printed("%.3f", value));
        EXPECT_EQ(formatted("{:.1e}", value), printed("%.1e", value));
        EXPECT_EQ(formatted("{:g}", value), printed("%g", value));
        EXPECT_EQ(formatted("{:.3g}", value), printed("%.3g", value));
        EXPECT_EQ(formatted("{:.4g}", value), printed("%.4g", value));
        EXPECT_EQ(formatted("{:.9g}", value), printed("%.9g", value));
        EXPECT_EQ(formatted("{:.17g}", value), printed("%.17g", value));
        EXPECT_EQ(formatted("{:f}", value), std::to_string(value));
        if (HasFailure()) return;
    }
}

TEST(Formatted, WritesIntegersAsToString) {
    constexpr auto least = std::numeric_limits<std::int64_t>::min();
    constexpr auto most = std::numeric_limits<std::uint64_t>::max();
    EXPECT_EQ(formatted("{} {}", least, most), std::to_string(least) + " " + std::to_string(most));
    EXPECT_EQ(formatted("{} {}", std::int8_t{-3}, std::uint8_t{65}), "-3 65");
    EXPECT_EQ(formatted("{:04o} 0x{:x} {:5} {:{}} {:d}", 0640U, 0x53464846L, 12, 3, 4, true),
              "0640 0x53464846    12    3 1");
}

TEST(Formatted, WritesTextAsItIs) {
    const std::string text = "a string";
    EXPECT_EQ(formatted("{} {} {} {}", text, std::string_view(text).substr(2), "a literal", 'c'),
              "a string string a literal c");
    EXPECT_EQ(formatted("{:<10}|{:>10}|{{}}", text, text), "a string  |  a string|{}");
    EXPECT_EQ(formatted("{}", std::string(100'000, 'x')).size(), 100'000U);
    EXPECT_EQ(formatted("{}", std::string("a\0b", 3)).size(), 3U);
}

TEST(Printable, WritesControlCharactersAsNumbers) {
    EXPECT_EQ(printable("a\tb\nc \xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80"),
              "a\tb\nc \xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80");
    EXPECT_EQ(printable("\x1b[31mred\x07\r\x7f"), "\\x1b[31mred\\x07\\x0d\\x7f");
    EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
    EXPECT_EQ(printable("\xc2\x9b"
                        "31m"),
              "\\xc2\\x9b"
              "31m")
        << "the same command in one character";
    EXPECT_EQ(printable("\xc2\xa0"), "\xc2\xa0");
}

TEST(Printable, WritesBytesThatAreNotUtf8AsNumbers) {
    EXPECT_EQ(printable("\x9b"
                        "31m\xff"),
              "\\x9b"
              "31m\\xff");
    // Cut off; longer than needed; half of a pair; beyond the last character.
    EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");
    EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");
    EXPECT_EQ(printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");
    EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
    EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

}  // namespace
}  // namespace kiln
