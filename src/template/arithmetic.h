// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of expressions: 64-bit integers, every overflow and division by zero reported. Inline,
// since launches pass through it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "template/expression.h"

namespace kiln::arithmetic {

template <class T>
T read_as(const void* address) {
    T value;
    std::memcpy(&value, address, sizeof value);
    return value;
}

inline std::int64_t read_argument(const void* address, ArgumentFormat format, Failure::Reason& reason) {
    switch (format) {
        case ArgumentFormat::i8:
            return read_as<std::int8_t>(address);
        case ArgumentFormat::u8:
            return read_as<std::uint8_t>(address);
        case ArgumentFormat::i16:
            return read_as<std::int16_t>(address);
        case ArgumentFormat::u16:
            return read_as<std::uint16_t>(address);
        case ArgumentFormat::i32:
            return read_as<std::int32_t>(address);
        case ArgumentFormat::u32:
            return read_as<std::uint32_t>(address);
        case ArgumentFormat::i64:
            return read_as<std::int64_t>(address);
        case ArgumentFormat::boolean:
            return read_as<std::uint8_t>(address) != 0;
        case ArgumentFormat::u64:
            break;
    }
    const auto value = read_as<std::uint64_t>(address);
    if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) reason = Failure::Reason::overflow;
    return static_cast<std::int64_t>(value);
}

/// Quotient rounded towards zero and remainder, as in C. Sizes are mostly small and what divides them mostly
/// a power of two, which spares the dear 64-bit division.
inline std::int64_t divide(std::int64_t a, std::int64_t b, std::int64_t& remainder, Failure::Reason& reason) {
    if (((a | b) >> 32) == 0 && b != 0) {
        const auto small_a = static_cast<std::uint32_t>(a), small_b = static_cast<std::uint32_t>(b);
        if (std::has_single_bit(small_b)) {
            remainder = small_a & (small_b - 1);
            return small_a >> std::countr_zero(small_b);
        }
        remainder = small_a % small_b;
        return small_a / small_b;
    }
    remainder = 0;
    if (b == 0) {
        reason = Failure::Reason::division_by_zero;
        return 0;
    }
    if (b == -1) {
        std::int64_t result = 0;
        if (__builtin_sub_overflow(std::int64_t{0}, a, &result)) reason = Failure::Reason::overflow;
        return result;
    }
    remainder = a % b;
    return a / b;
}

inline std::int64_t apply(Operator operation, std::int64_t a, std::int64_t b, Failure::Reason& reason) {
    std::int64_t result = 0, remainder = 0;
    const auto checked = [&](bool overflowed) {
        if (overflowed) reason = Failure::Reason::overflow;
        return result;
    };
    switch (operation) {
        case Operator::negate:
            return checked(__builtin_sub_overflow(std::int64_t{0}, a, &result));
        case Operator::logical_not:
            return a == 0;
        case Operator::is_pow2:
            return a > 0 && (a & (a - 1)) == 0;
        case Operator::add:
            return checked(__builtin_add_overflow(a, b, &result));
        case Operator::subtract:
            return checked(__builtin_sub_overflow(a, b, &result));
        case Operator::multiply:
            return checked(__builtin_mul_overflow(a, b, &result));
        case Operator::divide:
            return divide(a, b, remainder, reason);
        case Operator::remainder:
            if (b == -1) return 0;  // also for the smallest integer, whose quotient does not exist
            divide(a, b, remainder, reason);
            return remainder;
        case Operator::ceil_div: {
            const std::int64_t quotient = divide(a, b, remainder, reason);
            return quotient + (remainder != 0 && (remainder < 0) == (b < 0));
        }
        case Operator::min:
            return std::min(a, b);
        case Operator::max:
            return std::max(a, b);
        case Operator::equal:
            return a == b;
        case Operator::not_equal:
            return a != b;
        case Operator::less:
            return a < b;
        case Operator::less_equal:
            return a <= b;
        case Operator::greater:
            return a > b;
        case Operator::greater_equal:
            return a >= b;
        default:
            return 0;
    }
}

/// |a - b|, which may not fit 63 bits.
inline std::uint64_t distance(std::int64_t a, std::int64_t b) {
    return a < b ? static_cast<std::uint64_t>(b) - static_cast<std::uint64_t>(a)
                 : static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b);
}

}  // namespace kiln::arithmetic
