// SPDX-License-Identifier: Apache-2.0
//
// Elements of tensors by the name of their type: dispatch to a C++ type, widening to double, rounding, and
// the poison pattern of unwritten memory.
#pragma once

#include <kiln/error.h>
#include <kiln/types.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

namespace kiln {

template <class T>
constexpr bool is_small_float = std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;
template <class T>
constexpr bool is_float = std::is_floating_point_v<T> || is_small_float<T>;

/// Calls f(T{}) with the type of that normalised name ("half", "unsigned int"). Throws UsageError for a name
/// that is not an element type.
template <class F>
decltype(auto) with_element(std::string_view type, F&& f) {
    if (type == "half") return f(half{});
    if (type == "bfloat16") return f(bfloat16{});
    if (type == "float") return f(float{});
    if (type == "double") return f(double{});
    if (type == "bool") return f(bool{});
    if (type == "signed char" || type == "char") return f(std::int8_t{});
    if (type == "unsigned char") return f(std::uint8_t{});
    if (type == "short") return f(std::int16_t{});
    if (type == "unsigned short") return f(std::uint16_t{});
    if (type == "int") return f(std::int32_t{});
    if (type == "unsigned int") return f(std::uint32_t{});
    if (type == "long long" || type == "long") return f(std::int64_t{});
    if (type == "unsigned long long" || type == "unsigned long") return f(std::uint64_t{});
    throw UsageError("elements of the type '" + std::string(type) +
                     "' can't be made or compared; those of half, bfloat16, float, double, bool and the "
                     "integers can");
}

/// Exact except for 64-bit integers above 2^53.
template <class T>
double wide(T value) {
    if constexpr (is_small_float<T>)
        return static_cast<double>(static_cast<float>(value));
    else
        return static_cast<double>(value);
}

/// Whether a value that is expected tells the right result from others. A double holds integers below 2^53; a larger one
/// stands for all that round to it, so it needs a bound as large as the distance between two doubles there.
template <class T>
bool is_told_by_double(double expected, double bound) {
    if constexpr (is_float<T> || sizeof(T) < sizeof(double)) return true;
    const double size = std::abs(expected);
    if (!(size >= 0x1p53) || std::isinf(size) || std::isnan(bound) || bound < 0) return true;
    return bound >= std::ldexp(1.0, std::ilogb(size) - 52);
}

/// x rounded once, to nearest even, to a binary format: digits of the significand, the smallest normal
/// exponent, the largest finite value.
inline double rounded_to(double x, int digits, int min_exponent, double max_finite) {
    if (x == 0 || !std::isfinite(x)) return x;
    const int exponent = std::max(std::ilogb(x), min_exponent);
    const double unit = std::ldexp(1.0, exponent - (digits - 1));
    const double result = std::nearbyint(x / unit) * unit;
    return std::abs(result) > max_finite ? std::copysign(std::numeric_limits<double>::infinity(), x) : result;
}

/// The value of the type that is nearest to x; integers: x.
template <class T>
double rounded(double x) {
    if constexpr (std::is_same_v<T, half>)
        return rounded_to(x, 11, -14, 65504);
    else if constexpr (std::is_same_v<T, bfloat16>)
        return rounded_to(x, 8, -126, 0x1.fep127);
    else if constexpr (std::is_same_v<T, float>)
        return rounded_to(x, 24, -126, 0x1.fffffep127);
    else
        return x;
}

/// Half of the distance from x, a value of the type, to the next one in the direction of y: how far y may be from x and
/// still be rounded to it. 0 for integers and for non-finite values. For the largest value, as if further values
/// followed.
template <class T>
double half_gap(double x, double y) {
    constexpr int digits = std::is_same_v<T, half>       ? 11
                           : std::is_same_v<T, bfloat16> ? 8
                           : std::is_same_v<T, float>    ? 24
                           : std::is_same_v<T, double>   ? 53
                                                         : 0;
    if (digits == 0 || !std::isfinite(x)) return 0;
    constexpr int min_exponent = std::is_same_v<T, half> ? -14 : std::is_same_v<T, double> ? -1022 : -126;
    int exponent = x == 0 ? min_exponent : std::max(std::ilogb(x), min_exponent);
    // Values below a power of two are twice as close.
    const bool towards_zero = (x > 0 && y < x) || (x < 0 && y > x);
    if (towards_zero && exponent > min_exponent && std::abs(x) == std::ldexp(1.0, exponent)) --exponent;
    return std::ldexp(1.0, exponent - digits);
}

/// What outputs and scratch hold before a launch. `high` and `low` are near the largest and the smallest number of the type, so
/// that a maximum or a minimum with them is theirs, which one with a NaN is not.
enum class Poison { first, high, low };

/// The poison as a 32-bit word. The first one is, for 16-, 32- and 64-bit floats, a NaN that no arithmetic produces, and
/// 0xa5a5a5a5 for integers. Each byte of the others differs from that byte of the first one.
template <class T>
constexpr std::uint32_t poison_word(Poison poison) {
    constexpr bool is_half = std::is_same_v<T, half>, is_signed = std::is_signed_v<T>;
    switch (poison) {
        case Poison::first:
            break;
        case Poison::high:
            if (is_float<T>) return is_half ? 0x7b7b7b7bU : 0x7e7e7e7eU;
            return std::is_same_v<T, bool> ? 0x01010101U : is_signed ? 0x7f7f7f7fU : 0xffffffffU;
        case Poison::low:
            if (is_float<T>) return is_half ? 0xfbfbfbfbU : 0xfefefefeU;
            return is_signed ? 0x80808080U : 0;
    }
    return is_float<T> ? 0x7ff57ff5U : 0xa5a5a5a5U;
}

/// Whether unwritten elements can be recognised by their bits. Every value of an integer may be right, the poison too: then
/// what is unwritten shows by a second launch, on another poison.
template <class T>
constexpr bool kPoisonIsTelling = is_float<T>;

template <class T>
bool has_bits(const T& value, std::uint32_t word) {
    std::uint32_t words[2] = {word, word};
    return std::memcmp(&value, words, sizeof(T)) == 0;
}

template <class T>
bool is_poison(const T& value) {
    return has_bits(value, poison_word<T>(Poison::first));
}

}  // namespace kiln
