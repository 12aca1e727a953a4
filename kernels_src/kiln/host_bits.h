// SPDX-License-Identifier: Apache-2.0
//
// Conversions, bits and integers as CUDA names them. Part of host_math.h.
#pragma once

#include "kiln/host_types.h"

// The same bits as another type.
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
inline double __hiloint2double(int hi, int lo) {
    return __builtin_bit_cast(double, (unsigned long long)unsigned(hi) << 32 | unsigned(lo));
}
inline int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return int(__double_as_longlong(x)); }

// To integers: to nearest even, towards zero, down, up; what does not fit becomes the nearest that does. A NaN becomes what
// PTX says of cvt: 0 from 32 to 32 bits, and the highest bit alone where either side has 64.
namespace kiln_host {

template <class Integer, class Float>
inline Integer to_integer(Float rounded) {
    constexpr bool is_signed = Integer(-1) < Integer(0);
    constexpr int bits = int(sizeof(Integer)) * 8 - (is_signed ? 1 : 0);
    const Float end = Float(__builtin_ldexp(1.0, bits));  // the first that is too large
    const Integer largest = Integer(~0ull >> (64 - bits));
    if (rounded != rounded)
        return sizeof(Float) < 8 && sizeof(Integer) < 8 ? Integer(0)
                                                        : Integer(1ull << (sizeof(Integer) * 8 - 1));
    if (rounded >= end) return largest;
    if (rounded < (is_signed ? -end : Float(0))) return is_signed ? Integer(-largest - 1) : Integer(0);
    return Integer(rounded);
}

}  // namespace kiln_host
#define KILN_FROM_FLOAT(name, Integer)                                                                \
    inline Integer name##_rn(float x) { return kiln_host::to_integer<Integer>(__builtin_rintf(x)); }  \
    inline Integer name##_rz(float x) { return kiln_host::to_integer<Integer>(__builtin_truncf(x)); } \
    inline Integer name##_rd(float x) { return kiln_host::to_integer<Integer>(__builtin_floorf(x)); } \
    inline Integer name##_ru(float x) { return kiln_host::to_integer<Integer>(__builtin_ceilf(x)); }
KILN_FROM_FLOAT(__float2int, int)
KILN_FROM_FLOAT(__float2uint, unsigned)
KILN_FROM_FLOAT(__float2ll, long long)
KILN_FROM_FLOAT(__float2ull, unsigned long long)
#undef KILN_FROM_FLOAT
#define KILN_FROM_DOUBLE(name, Integer)                                                               \
    inline Integer name##_rn(double x) { return kiln_host::to_integer<Integer>(__builtin_rint(x)); }  \
    inline Integer name##_rz(double x) { return kiln_host::to_integer<Integer>(__builtin_trunc(x)); } \
    inline Integer name##_rd(double x) { return kiln_host::to_integer<Integer>(__builtin_floor(x)); } \
    inline Integer name##_ru(double x) { return kiln_host::to_integer<Integer>(__builtin_ceil(x)); }
KILN_FROM_DOUBLE(__double2int, int)
KILN_FROM_DOUBLE(__double2uint, unsigned)
KILN_FROM_DOUBLE(__double2ll, long long)
KILN_FROM_DOUBLE(__double2ull, unsigned long long)
#undef KILN_FROM_DOUBLE
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __ll2float_rn(long long x) { return float(x); }
inline float __ull2float_rn(unsigned long long x) { return float(x); }
inline float __double2float_rn(double x) { return float(x); }
inline double __int2double_rn(int x) { return double(x); }
inline double __uint2double_rn(unsigned x) { return double(x); }
inline double __ll2double_rn(long long x) { return double(x); }
inline double __ull2double_rn(unsigned long long x) { return double(x); }

// Bits: population count, first set (from 1; 0: none), leading zeros, reversal, upper half of a product.
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline unsigned __brev(unsigned x) {
    x = __builtin_bswap32(x);
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    return (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
}
inline unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32));
}
/// Where the |offset|-th set bit is, from bit `base` upwards, or downwards where offset is negative; that bit itself where it
/// is 0. All bits set: there is none.
inline unsigned __fns(unsigned mask, unsigned base, int offset) {
    const int step = offset < 0 ? -1 : 1;
    int left = offset == 0 ? 1 : offset < 0 ? -offset : offset;
    for (int bit = int(base); bit >= 0 && bit < 32; bit += step) {
        if ((mask >> bit & 1u) != 0 && --left == 0) return unsigned(bit);
        if (offset == 0) break;
    }
    return ~0u;
}
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    __extension__ typedef unsigned __int128 Wide;
    return (unsigned long long)((Wide)a * b >> 64);
}
inline long long __mul64hi(long long a, long long b) {
    __extension__ typedef __int128 Wide;
    return (long long)((Wide)a * b >> 64);
}
inline int __mul24(int a, int b) { return int(unsigned(a << 8 >> 8) * unsigned(b << 8 >> 8)); }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
/// |a - b| + sum.
inline unsigned __sad(int a, int b, unsigned sum) {
    return (a < b ? unsigned(b) - unsigned(a) : unsigned(a) - unsigned(b)) + sum;
}
inline unsigned __usad(unsigned a, unsigned b, unsigned sum) { return (a < b ? b - a : a - b) + sum; }
// The mean, rounded down; with an r up.
inline int __hadd(int a, int b) { return int(((long long)a + b) >> 1); }
inline int __rhadd(int a, int b) { return int(((long long)a + b + 1) >> 1); }
inline unsigned __uhadd(unsigned a, unsigned b) { return unsigned(((unsigned long long)a + b) >> 1); }
inline unsigned __urhadd(unsigned a, unsigned b) { return unsigned(((unsigned long long)a + b + 1) >> 1); }
/// The words hi:lo shifted left by shift % 32, the upper one of the result.
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
    return unsigned(((unsigned long long)hi << 32 | lo) << (shift & 31u) >> 32);
}
/// Shifted right, the lower one.
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
    return unsigned(((unsigned long long)hi << 32 | lo) >> (shift & 31u));
}
// The same, of a shift that is at most 32.
inline unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned shift) {
    return shift >= 32u ? lo : __funnelshift_l(lo, hi, shift);
}
inline unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned shift) {
    return shift >= 32u ? hi : __funnelshift_r(lo, hi, shift);
}
/// Four of the eight bytes of b:a, each chosen by three bits of a digit of `digits`; the fourth bit takes the
/// byte's sign eight times instead.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned digits) {
    const unsigned long long bytes = (unsigned long long)b << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned digit = digits >> 4 * i;
        unsigned byte = unsigned(bytes >> 8 * (digit & 7u)) & 0xffu;
        if (digit & 8u) byte = byte & 0x80u ? 0xffu : 0u;
        result |= byte << 8 * i;
    }
    return result;
}

// Dot products of integers that are packed in a word, added to c: of four bytes with four bytes, and of two 16-bit numbers
// with the lower or the upper two bytes. Modulo 2^32.
namespace kiln_host {

template <class A, class B, int COUNT>
inline unsigned packed_dot(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < COUNT; ++i)
        c += unsigned(int(A(a >> 8 * sizeof(A) * i)) * int(B(b >> 8 * sizeof(B) * i)));
    return c;
}

}  // namespace kiln_host
#define KILN_DOT(Integer, A, B, A_VECTOR, B_VECTOR)                                                  \
    inline Integer __dp4a(Integer a, Integer b, Integer c) {                                         \
        return Integer(kiln_host::packed_dot<B, B, 4>(unsigned(a), unsigned(b), unsigned(c)));       \
    }                                                                                                \
    inline Integer __dp2a_lo(Integer a, Integer b, Integer c) {                                      \
        return Integer(kiln_host::packed_dot<A, B, 2>(unsigned(a), unsigned(b), unsigned(c)));       \
    }                                                                                                \
    inline Integer __dp2a_hi(Integer a, Integer b, Integer c) {                                      \
        return Integer(kiln_host::packed_dot<A, B, 2>(unsigned(a), unsigned(b) >> 16, unsigned(c))); \
    }                                                                                                \
    inline Integer __dp4a(B_VECTOR a, B_VECTOR b, Integer c) {                                       \
        return __dp4a(__builtin_bit_cast(Integer, a), __builtin_bit_cast(Integer, b), c);            \
    }                                                                                                \
    inline Integer __dp2a_lo(A_VECTOR a, B_VECTOR b, Integer c) {                                    \
        return __dp2a_lo(__builtin_bit_cast(Integer, a), __builtin_bit_cast(Integer, b), c);         \
    }                                                                                                \
    inline Integer __dp2a_hi(A_VECTOR a, B_VECTOR b, Integer c) {                                    \
        return __dp2a_hi(__builtin_bit_cast(Integer, a), __builtin_bit_cast(Integer, b), c);         \
    }
KILN_DOT(int, short, signed char, short2, char4)
KILN_DOT(unsigned, unsigned short, unsigned char, ushort2, uchar4)
#undef KILN_DOT
