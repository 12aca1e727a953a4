// SPDX-License-Identifier: Apache-2.0
//
// The C library's names as CUDA overloads them: sin(x) of a float is sinf(x), as in a kernel on a GPU. Part of host_math.h.
// The overloads are those that NVRTC declares, in a namespace of their own, and a template of each name calls them. So a call
// means what it means there, and one that is ambiguous there, such as sqrt() of an int, is an error here too. Of templates,
// because <cmath> may follow: its functions are preferred to them, and are no second declaration of the same.
#pragma once

namespace kiln_host::math {

template <class A, class... B>
constexpr bool is_any = (__is_same(A, B) || ...);
/// Some are float and some double.
template <class... A>
constexpr bool are_mixed = is_any<float, A...>&& is_any<double, A...>;

#define KILN_OVERLOADS1(name)                                    \
    __forceinline__ float name(float x) { return ::name##f(x); } \
    __forceinline__ double name(double x) { return ::name(x); }
#define KILN_OVERLOADS2(name)                                                \
    __forceinline__ float name(float x, float y) { return ::name##f(x, y); } \
    __forceinline__ double name(double x, double y) { return ::name(x, y); }
#define KILN_INTEGER_OF(Integer, name)                             \
    __forceinline__ Integer name(float x) { return ::name##f(x); } \
    __forceinline__ Integer name(double x) { return ::name(x); }
#define KILN_KIND_OF(name)                                                    \
    __forceinline__ int name(float x) { return __builtin_##name(x) ? 1 : 0; } \
    __forceinline__ int name(double x) { return __builtin_##name(x) ? 1 : 0; }
#define KILN_SCALED(name, Exponent)                                                           \
    __forceinline__ float name(float x, Exponent exponent) { return ::name##f(x, exponent); } \
    __forceinline__ double name(double x, Exponent exponent) { return ::name(x, exponent); }
#define KILN_TWO_RESULTS(name)                                                     \
    __forceinline__ void name(float x, float* a, float* b) { ::name##f(x, a, b); } \
    __forceinline__ void name(double x, double* a, double* b) { ::name(x, a, b); }
// clang-format off
#define KILN_ALL1(use) \
    use(sin) use(cos) use(tan) use(asin) use(acos) use(atan) use(sinh) use(cosh) use(tanh) use(asinh) use(acosh) \
    use(atanh) use(sinpi) use(cospi) use(exp) use(exp2) use(exp10) use(expm1) use(log) use(log2) use(log10) \
    use(log1p) use(logb) use(sqrt) use(rsqrt) use(cbrt) use(rcbrt) use(floor) use(ceil) use(trunc) use(round) \
    use(rint) use(nearbyint) use(fabs) use(erf) use(erfc) use(normcdf) use(tgamma) use(lgamma) use(j0) use(j1) \
    use(y0) use(y1)
#define KILN_ALL2(use) \
    use(pow) use(fmod) use(remainder) use(atan2) use(hypot) use(fdim) use(fmin) use(fmax) use(nextafter)
#define KILN_ALL_KINDS(use) use(isnan) use(isinf) use(isfinite) use(signbit)
// clang-format on
KILN_ALL1(KILN_OVERLOADS1)
KILN_ALL2(KILN_OVERLOADS2)
KILN_OVERLOADS2(copysign)
KILN_ALL_KINDS(KILN_KIND_OF)
KILN_INTEGER_OF(int, ilogb)
KILN_INTEGER_OF(long, lrint)
KILN_INTEGER_OF(long, lround)
KILN_INTEGER_OF(long long, llrint)
KILN_INTEGER_OF(long long, llround)
KILN_SCALED(ldexp, int)
KILN_SCALED(scalbn, int)
KILN_SCALED(scalbln, long)
KILN_SCALED(frexp, int*)
KILN_TWO_RESULTS(sincos)
KILN_TWO_RESULTS(sincospi)
__forceinline__ float modf(float x, float* whole) { return ::modff(x, whole); }
__forceinline__ double modf(double x, double* whole) { return ::modf(x, whole); }
__forceinline__ float remquo(float x, float y, int* quotient) { return ::remquof(x, y, quotient); }
__forceinline__ double remquo(double x, double y, int* quotient) { return ::remquo(x, y, quotient); }
__forceinline__ float jn(int n, float x) { return ::jnf(n, x); }
__forceinline__ double jn(int n, double x) { return ::jn(n, x); }
__forceinline__ float yn(int n, float x) { return ::ynf(n, x); }
__forceinline__ double yn(int n, double x) { return ::yn(n, x); }
__forceinline__ float fma(float x, float y, float z) { return ::fmaf(x, y, z); }
__forceinline__ double fma(double x, double y, double z) { return ::fma(x, y, z); }
__forceinline__ float pow(float x, int y) { return float(::pow(double(x), double(y))); }
__forceinline__ double pow(double x, int y) { return ::pow(x, double(y)); }
__forceinline__ double copysign(float x, double y) { return ::copysign(double(x), y); }
__forceinline__ double copysign(double x, float y) { return ::copysign(x, double(y)); }
__forceinline__ int abs(int x) { return ::abs(x); }
__forceinline__ long abs(long x) { return ::labs(x); }
__forceinline__ long long abs(long long x) { return ::llabs(x); }
__forceinline__ float abs(float x) { return ::fabsf(x); }
__forceinline__ double abs(double x) { return ::fabs(x); }

#undef KILN_OVERLOADS1
#undef KILN_OVERLOADS2
#undef KILN_INTEGER_OF
#undef KILN_KIND_OF
#undef KILN_SCALED
#undef KILN_TWO_RESULTS

}  // namespace kiln_host::math

// Of any number of arguments: so a template of <cmath> is more specialised.
#define KILN_CALL_OVERLOAD(name)                    \
    template <class... A>                           \
    __forceinline__ auto name(A... arguments) {     \
        return kiln_host::math::name(arguments...); \
    }
// GCC takes the one for doubles where overloads for floats and for doubles match equally well.
#define KILN_CALL_ALIKE(name)                                                                              \
    template <class... A>                                                                                  \
    __forceinline__ auto name(A... arguments) {                                                            \
        static_assert(!kiln_host::math::are_mixed<A...>, #name "() of a float and a double is ambiguous"); \
        return kiln_host::math::name(arguments...);                                                        \
    }
KILN_ALL1(KILN_CALL_OVERLOAD)
KILN_ALL2(KILN_CALL_ALIKE)
KILN_ALL_KINDS(KILN_CALL_OVERLOAD)
// clang-format off
KILN_CALL_OVERLOAD(ilogb) KILN_CALL_OVERLOAD(lrint) KILN_CALL_OVERLOAD(lround) KILN_CALL_OVERLOAD(llrint)
KILN_CALL_OVERLOAD(llround) KILN_CALL_OVERLOAD(ldexp) KILN_CALL_OVERLOAD(scalbn) KILN_CALL_OVERLOAD(scalbln)
KILN_CALL_OVERLOAD(frexp) KILN_CALL_OVERLOAD(modf) KILN_CALL_OVERLOAD(jn) KILN_CALL_OVERLOAD(yn)
KILN_CALL_OVERLOAD(sincos) KILN_CALL_OVERLOAD(sincospi) KILN_CALL_OVERLOAD(abs) KILN_CALL_OVERLOAD(copysign)
KILN_CALL_ALIKE(fma) KILN_CALL_ALIKE(remquo)
// clang-format on
#undef KILN_CALL_OVERLOAD
#undef KILN_CALL_ALIKE
#undef KILN_ALL1
#undef KILN_ALL2
#undef KILN_ALL_KINDS
