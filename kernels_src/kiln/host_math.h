// SPDX-License-Identifier: Apache-2.0
//
// Mathematics as CUDA names it. The C library's functions are declared, not included: its
// C++ headers would cost more than the kernel. Part of device_host.h. The overloads for float: host_overloads.h;
// conversions and integers: host_bits.h.
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
KILN_MATH1(sinh) KILN_MATH1(cosh) KILN_MATH1(tanh) KILN_MATH1(asinh) KILN_MATH1(acosh) KILN_MATH1(atanh)
KILN_MATH1(erf) KILN_MATH1(erfc) KILN_MATH1(logb) KILN_MATH1(j0) KILN_MATH1(j1) KILN_MATH1(y0) KILN_MATH1(y1)
KILN_MATH1(fabs) KILN_MATH1(floor) KILN_MATH1(ceil) KILN_MATH1(trunc) KILN_MATH1(round) KILN_MATH1(rint)
KILN_MATH1(nearbyint)
KILN_MATH2(pow) KILN_MATH2(fmod) KILN_MATH2(remainder) KILN_MATH2(atan2) KILN_MATH2(hypot) KILN_MATH2(copysign)
KILN_MATH2(fdim) KILN_MATH2(nextafter)
#undef KILN_MATH1
#undef KILN_MATH2
float fmaf(float, float, float) noexcept;
double fma(double, double, double) noexcept;
float ldexpf(float, int) noexcept;
double ldexp(double, int) noexcept;
float scalbnf(float, int) noexcept;
double scalbn(double, int) noexcept;
float scalblnf(float, long) noexcept;
double scalbln(double, long) noexcept;
float frexpf(float, int* exponent) noexcept;
double frexp(double, int* exponent) noexcept;
float modff(float, float* whole) noexcept;
double modf(double, double* whole) noexcept;
float remquof(float, float, int* quotient) noexcept;
double remquo(double, double, int* quotient) noexcept;
float jnf(int, float) noexcept;
double jn(int, double) noexcept;
float ynf(int, float) noexcept;
double yn(int, double) noexcept;
int ilogbf(float) noexcept;
int ilogb(double) noexcept;
long lrintf(float) noexcept;
long lrint(double) noexcept;
long lroundf(float) noexcept;
long lround(double) noexcept;
long long llrintf(float) noexcept;
long long llrint(double) noexcept;
long long llroundf(float) noexcept;
long long llround(double) noexcept;
float nanf(const char*) noexcept;
double nan(const char*) noexcept;
void sincosf(float, float* sine, float* cosine) noexcept;
void sincos(double, double* sine, double* cosine) noexcept;
int abs(int) noexcept;
long labs(long) noexcept;
long long llabs(long long) noexcept;
int printf(const char*, ...);
#if !defined(KILN_HOST_RECORD)
void* memcpy(void*, const void*, unsigned long) noexcept;
void* memmove(void*, const void*, unsigned long) noexcept;
void* memset(void*, int, unsigned long) noexcept;
#endif
// clang-format on

// Compiled in place: as calls they would dominate a reduction. A NaN loses against a number.
#define KILN_IN_PLACE extern __inline__ __attribute__((__gnu_inline__, __always_inline__))
KILN_IN_PLACE float fmaxf(float a, float b) noexcept { return b < a || b != b ? a : b; }
KILN_IN_PLACE float fminf(float a, float b) noexcept { return a < b || b != b ? a : b; }
#if defined(KILN_HOST_RECORD)
// The C library's own stores would not be seen.
KILN_IN_PLACE void sincosf(float x, float* sine, float* cosine) noexcept {
    *sine = sinf(x);
    *cosine = cosf(x);
}
KILN_IN_PLACE void sincos(double x, double* sine, double* cosine) noexcept {
    *sine = sin(x);
    *cosine = cos(x);
}
#endif
KILN_IN_PLACE double fmax(double a, double b) noexcept { return b < a || b != b ? a : b; }
KILN_IN_PLACE double fmin(double a, double b) noexcept { return a < b || b != b ? a : b; }

// CUDA's, and since C23 also a C library's.
KILN_IN_PLACE float rsqrtf(float x) noexcept { return 1.0f / __builtin_sqrtf(x); }
KILN_IN_PLACE double rsqrt(double x) noexcept { return 1.0 / __builtin_sqrt(x); }
/// The sine and the cosine of pi x. Whole turns are taken off first, which is exact, and then the nearest multiple of a
/// quarter turn, so that neither is off where it is near 0.
KILN_IN_PLACE void sincospi(double x, double* sine, double* cosine) noexcept {
    const double turn = x - 2 * __builtin_rint(x / 2), quarters = __builtin_rint(2 * turn);
    const double angle = 3.14159265358979323846 * (turn - quarters / 2);
    const double s = __builtin_sin(angle), c = __builtin_cos(angle);
    *sine = quarters == 0 ? s : quarters == 1 ? c : quarters == -1 ? -c : -s;
    *cosine = quarters == 0 ? c : quarters == 1 ? -s : quarters == -1 ? s : -c;
}
KILN_IN_PLACE double sinpi(double x) noexcept {
    double sine, cosine;
    sincospi(x, &sine, &cosine);
    return sine;
}
KILN_IN_PLACE double cospi(double x) noexcept {
    double sine, cosine;
    sincospi(x, &sine, &cosine);
    return cosine;
}
KILN_IN_PLACE float sinpif(float x) noexcept { return float(sinpi(x)); }
KILN_IN_PLACE float cospif(float x) noexcept { return float(cospi(x)); }
KILN_IN_PLACE void sincospif(float x, float* sine, float* cosine) noexcept {
    *sine = sinpif(x);
    *cosine = cospif(x);
}

// CUDA's fast approximations, here as exact as the library. The C library uses these names too.
KILN_IN_PLACE float __expf(float x) noexcept { return __builtin_expf(x); }
KILN_IN_PLACE float __logf(float x) noexcept { return __builtin_logf(x); }
KILN_IN_PLACE float __log2f(float x) noexcept { return __builtin_log2f(x); }
KILN_IN_PLACE float __log10f(float x) noexcept { return __builtin_log10f(x); }
KILN_IN_PLACE float __sinf(float x) noexcept { return __builtin_sinf(x); }
KILN_IN_PLACE float __cosf(float x) noexcept { return __builtin_cosf(x); }
KILN_IN_PLACE float __tanf(float x) noexcept { return __builtin_tanf(x); }
KILN_IN_PLACE void __sincosf(float x, float* sine, float* cosine) noexcept { sincosf(x, sine, cosine); }
KILN_IN_PLACE float __exp10f(float x) noexcept { return exp10f(x); }
KILN_IN_PLACE float __powf(float x, float y) noexcept { return __builtin_powf(x, y); }
#undef KILN_IN_PLACE
}

// CUDA's own: rounding named in the call, and some that C lacks.
namespace kiln_host {

/// The value as rounded: the compiler may else fuse a product with a sum.
template <class Float>
inline Float rounded(Float value) {
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
inline float __frsqrt_rn(float x) { return float(1 / __builtin_sqrt(double(x))); }
inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return kiln_host::rounded(a) + kiln_host::rounded(b); }
inline double __dsub_rn(double a, double b) { return kiln_host::rounded(a) - kiln_host::rounded(b); }
inline double __dmul_rn(double a, double b) { return kiln_host::rounded(a * b); }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __drcp_rn(double x) { return 1.0 / x; }
inline double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
/// Into [0, 1]; a NaN becomes 0.
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float __fdividef(float a, float b) { return a / b; }
inline float fdividef(float a, float b) { return a / b; }

// Roots, lengths and distributions that C lacks. Those of floats are computed in double, where no square overflows.
inline double rcbrt(double x) { return 1.0 / cbrt(x); }
inline float rcbrtf(float x) { return float(1.0 / cbrt(double(x))); }
inline double normcdf(double x) { return erfc(x * -0.70710678118654752440) / 2; }
inline float normcdff(float x) { return float(normcdf(double(x))); }
inline double norm3d(double a, double b, double c) { return hypot(hypot(a, b), c); }
inline double norm4d(double a, double b, double c, double d) { return hypot(hypot(a, b), hypot(c, d)); }
inline double rhypot(double a, double b) { return 1.0 / hypot(a, b); }
inline double rnorm3d(double a, double b, double c) { return 1.0 / norm3d(a, b, c); }
inline double rnorm4d(double a, double b, double c, double d) { return 1.0 / norm4d(a, b, c, d); }
inline float norm3df(float a, float b, float c) { return float(norm3d(a, b, c)); }
inline float norm4df(float a, float b, float c, float d) { return float(norm4d(a, b, c, d)); }
inline float rhypotf(float a, float b) { return float(rhypot(a, b)); }
inline float rnorm3df(float a, float b, float c) { return float(rnorm3d(a, b, c)); }
inline float rnorm4df(float a, float b, float c, float d) { return float(rnorm4d(a, b, c, d)); }

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
inline constexpr unsigned umin(unsigned a, unsigned b) { return min(a, b); }
inline constexpr unsigned umax(unsigned a, unsigned b) { return max(a, b); }
inline constexpr long long llmin(long long a, long long b) { return min(a, b); }
inline constexpr long long llmax(long long a, long long b) { return max(a, b); }
inline constexpr unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
inline constexpr unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

#include "kiln/host_bits.h"
#include "kiln/host_overloads.h"
