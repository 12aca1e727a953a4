// SPDX-License-Identifier: Apache-2.0
//
// Mathematics and bits as CUDA names them. The C library's functions are declared, not included: its
// C++ headers would cost more than the kernel. Part of device_host.h.
#pragma once

// From the C library.
extern "C" {
// clang-format off
#define KILN_MATH1(name)           \
    float name##f(float) noexcept; \
    double name(double) noexcept;
#define KILN_MATH2(name)                  \
    float name##f(float, float) noexcept; \
    double name(double, double) noexcept;
KILN_MATH1(sqrt) KILN_MATH1(cbrt) KILN_MATH1(exp) KILN_MATH1(exp2) KILN_MATH1(exp10) KILN_MATH1(expm1)
KILN_MATH1(log) KILN_MATH1(log2) KILN_MATH1(log10) KILN_MATH1(log1p) KILN_MATH1(lgamma) KILN_MATH1(tgamma)
KILN_MATH1(sin) KILN_MATH1(cos) KILN_MATH1(tan) KILN_MATH1(asin) KILN_MATH1(acos) KILN_MATH1(atan)
KILN_MATH1(sinh) KILN_MATH1(cosh) KILN_MATH1(tanh) KILN_MATH1(erf) KILN_MATH1(erfc)
KILN_MATH1(fabs) KILN_MATH1(floor) KILN_MATH1(ceil) KILN_MATH1(trunc) KILN_MATH1(round) KILN_MATH1(rint)
KILN_MATH1(nearbyint)
KILN_MATH2(pow) KILN_MATH2(fmod) KILN_MATH2(remainder) KILN_MATH2(atan2) KILN_MATH2(hypot) KILN_MATH2(copysign)
KILN_MATH2(fdim)
#undef KILN_MATH1
#undef KILN_MATH2
float fmaf(float, float, float) noexcept;
double fma(double, double, double) noexcept;
float ldexpf(float, int) noexcept;
double ldexp(double, int) noexcept;
void sincosf(float, float* sine, float* cosine) noexcept;
void sincos(double, double* sine, double* cosine) noexcept;
int abs(int) noexcept;
int printf(const char*, ...);
// clang-format on

// Compiled in place: as calls they would dominate a reduction. A NaN loses against a number.
#define KILN_IN_PLACE extern __inline__ __attribute__((__gnu_inline__, __always_inline__))
KILN_IN_PLACE float fmaxf(float a, float b) noexcept { return b < a || b != b ? a : b; }
KILN_IN_PLACE float fminf(float a, float b) noexcept { return a < b || b != b ? a : b; }
KILN_IN_PLACE double fmax(double a, double b) noexcept { return b < a || b != b ? a : b; }
KILN_IN_PLACE double fmin(double a, double b) noexcept { return a < b || b != b ? a : b; }

// CUDA's, and since C23 also a C library's.
KILN_IN_PLACE float rsqrtf(float x) noexcept { return 1.0f / __builtin_sqrtf(x); }
KILN_IN_PLACE double rsqrt(double x) noexcept { return 1.0 / __builtin_sqrt(x); }

// CUDA's fast approximations, here as exact as the library. The C library uses these names too.
KILN_IN_PLACE float __expf(float x) noexcept { return __builtin_expf(x); }
KILN_IN_PLACE float __logf(float x) noexcept { return __builtin_logf(x); }
KILN_IN_PLACE float __log2f(float x) noexcept { return __builtin_log2f(x); }
KILN_IN_PLACE float __log10f(float x) noexcept { return __builtin_log10f(x); }
KILN_IN_PLACE float __sinf(float x) noexcept { return __builtin_sinf(x); }
KILN_IN_PLACE float __cosf(float x) noexcept { return __builtin_cosf(x); }
KILN_IN_PLACE float __powf(float x, float y) noexcept { return __builtin_powf(x, y); }
#undef KILN_IN_PLACE
}

// CUDA's own: rounding named in the call, and some that C lacks.
namespace kiln_host {

/// The value as rounded: the compiler may else fuse a product with a sum.
inline float rounded(float value) {
#if defined(__x86_64__)
    __asm__("" : "+x"(value));
#elif defined(__aarch64__)
    __asm__("" : "+w"(value));
#else
    __asm__("" : "+m"(value));
#endif
    return value;
}

}  // namespace kiln_host
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return kiln_host::rounded(a) + kiln_host::rounded(b); }
inline float __fsub_rn(float a, float b) { return kiln_host::rounded(a) - kiln_host::rounded(b); }
inline float __fmul_rn(float a, float b) { return kiln_host::rounded(a * b); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
/// Into [0, 1]; a NaN becomes 0.
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float __fdividef(float a, float b) { return a / b; }

// min and max with CUDA's mixtures of signs and sizes.
namespace kiln_host {

template <class T>
constexpr T smaller(T a, T b) {
    return b < a ? b : a;
}
template <class T>
constexpr T larger(T a, T b) {
    return a < b ? b : a;
}

}  // namespace kiln_host
#define KILN_MINMAX(A, B, R)                                                 \
    inline constexpr R min(A a, B b) { return kiln_host::smaller<R>(a, b); } \
    inline constexpr R max(A a, B b) { return kiln_host::larger<R>(a, b); }
#define KILN_MINMAX_INTEGER(S, U) \
    KILN_MINMAX(S, S, S) KILN_MINMAX(U, U, U) KILN_MINMAX(S, U, U) KILN_MINMAX(U, S, U)
KILN_MINMAX_INTEGER(int, unsigned)
KILN_MINMAX_INTEGER(long, unsigned long)
KILN_MINMAX_INTEGER(long long, unsigned long long)
#undef KILN_MINMAX_INTEGER
#undef KILN_MINMAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

// The same bits as another type.
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }

// To integers: to nearest even, towards zero, down, up; what does not fit becomes the nearest that does, and
// a NaN 0.
namespace kiln_host {

template <class Integer>
inline Integer to_integer(float rounded) {
    constexpr bool is_signed = Integer(-1) < Integer(0);
    constexpr int bits = int(sizeof(Integer)) * 8 - (is_signed ? 1 : 0);
    const float end = __builtin_ldexpf(1.0f, bits);  // the first that is too large
    const Integer largest = Integer(~0ull >> (64 - bits));
    if (rounded != rounded) return 0;
    if (rounded >= end) return largest;
    if (rounded < (is_signed ? -end : 0.0f)) return is_signed ? Integer(-largest - 1) : Integer(0);
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
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __ll2float_rn(long long x) { return float(x); }
inline float __ull2float_rn(unsigned long long x) { return float(x); }

// What kind of number it is. Templates, so that <cmath> may follow.
template <class T>
inline bool isnan(T x) {
    return __builtin_isnan(x);
}
template <class T>
inline bool isinf(T x) {
    return __builtin_isinf(x);
}
template <class T>
inline bool isfinite(T x) {
    return __builtin_isfinite(x);
}
template <class T>
inline bool signbit(T x) {
    return __builtin_signbit(x);
}

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
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    __extension__ typedef unsigned __int128 Wide;
    return (unsigned long long)((Wide)a * b >> 64);
}
inline int __mul24(int a, int b) { return int(unsigned(a << 8 >> 8) * unsigned(b << 8 >> 8)); }
/// The words hi:lo shifted left by shift % 32, the upper one of the result.
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
    return unsigned(((unsigned long long)hi << 32 | lo) << (shift & 31u) >> 32);
}
/// Shifted right, the lower one.
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
    return unsigned(((unsigned long long)hi << 32 | lo) >> (shift & 31u));
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
