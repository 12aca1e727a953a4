// SPDX-License-Identifier: Apache-2.0
//
// The host's half and bfloat16, and CUDA's vector types. Part of device_host.h.
#pragma once

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;

namespace kiln_host {

#if defined(__F16C__)
typedef float Float4 __attribute__((vector_size(16)));
typedef int Int4 __attribute__((vector_size(16)));

inline float half_to_float(unsigned short bits) {
    // Not the builtin: vectorisers take it apart, and gather the halves of a tile's column through memory.
    Float4 result;
    const Int4 word = {bits};
    __asm__("vcvtph2ps %1, %0" : "=v"(result) : "v"(word));
    return result[0];
}
inline unsigned short float_to_half(float value) {
    return static_cast<unsigned short>(__builtin_ia32_vcvtps2ph(Float4{value}, 0)[0]);
}
#else
inline float half_to_float(unsigned short bits) {
    // Shifting gives the value times 2^-112, subnormals included; multiplying is exact.
    const unsigned magnitude = (bits & 0x7fffu) << 13;
    unsigned word = __builtin_bit_cast(unsigned, __builtin_bit_cast(float, magnitude) * 0x1p112f);
    if ((bits & 0x7c00u) == 0x7c00u)
        word = magnitude | 0x7f800000u | (magnitude & 0x7fffffu ? 0x400000u : 0u);
    return __builtin_bit_cast(float, word | (bits & 0x8000u) << 16);
}
inline unsigned short float_to_half(float value) {
    const unsigned word = __builtin_bit_cast(unsigned, value);
    const unsigned sign = word >> 16 & 0x8000u;
    const unsigned magnitude = word & 0x7fffffffu;
    unsigned result;
    if (magnitude > 0x7f800000u) {
        result = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    } else if (magnitude >= 0x477ff000u) {  // rounds to 65536 or more
        result = 0x7c00u;
    } else if (magnitude >= 0x38800000u) {  // normal: round the 13 lost bits to nearest even
        result = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    } else {  // subnormal: the addition rounds to a multiple of 2^-24
        result = __builtin_bit_cast(unsigned, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000u;
    }
    return static_cast<unsigned short>(sign | result);
}
#endif

inline unsigned short float_to_bfloat16(float value) {
    const unsigned word = __builtin_bit_cast(unsigned, value);
    if (value != value) return static_cast<unsigned short>(word >> 16 | 0x40u);
    return static_cast<unsigned short>((word + 0x7fffu + (word >> 16 & 1u)) >> 16);
}

}  // namespace kiln_host

namespace kiln {

/// IEEE 754 binary16; conversion rounds to nearest even.
struct half {
    unsigned short bits;

    half() = default;
    __forceinline__ explicit half(float value) : bits(kiln_host::float_to_half(value)) {}
    __forceinline__ explicit operator float() const { return kiln_host::half_to_float(bits); }
};

/// The upper 16 bits of a binary32; conversion rounds to nearest even.
struct bfloat16 {
    unsigned short bits;

    bfloat16() = default;
    __forceinline__ explicit bfloat16(float value) : bits(kiln_host::float_to_bfloat16(value)) {}
    __forceinline__ explicit operator float() const {
        return __builtin_bit_cast(float, unsigned(bits) << 16);
    }
};

}  // namespace kiln

// CUDA's vector types, with their alignment, and make_*.
using uint3 = kiln_host::Extent;
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 extent) : x(extent.x), y(extent.y), z(extent.z) {}
};

#define KILN_VECTOR1(name, T) \
    struct name {             \
        T x;                  \
    };                        \
    inline name make_##name(T x) { return {x}; }
#define KILN_VECTOR2(name, T)            \
    struct alignas(2 * sizeof(T)) name { \
        T x, y;                          \
    };                                   \
    inline name make_##name(T x, T y) { return {x, y}; }
#define KILN_VECTOR3(name, T) \
    struct name {             \
        T x, y, z;            \
    };                        \
    inline name make_##name(T x, T y, T z) { return {x, y, z}; }
#define KILN_VECTOR4(name, T)                                      \
    struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name { \
        T x, y, z, w;                                              \
    };                                                             \
    inline name make_##name(T x, T y, T z, T w) { return {x, y, z, w}; }

#define KILN_VECTORS(name, T) \
    KILN_VECTOR1(name##1, T)  \
    KILN_VECTOR2(name##2, T)  \
    KILN_VECTOR3(name##3, T)  \
    KILN_VECTOR4(name##4, T)
KILN_VECTORS(char, signed char)
KILN_VECTORS(uchar, unsigned char)
KILN_VECTORS(short, short)
KILN_VECTORS(ushort, unsigned short)
KILN_VECTORS(int, int)
KILN_VECTOR1(uint1, unsigned)
KILN_VECTOR2(uint2, unsigned)
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
KILN_VECTOR4(uint4, unsigned)
KILN_VECTORS(long, long)
KILN_VECTORS(ulong, unsigned long)
KILN_VECTORS(longlong, long long)
KILN_VECTORS(ulonglong, unsigned long long)
KILN_VECTORS(float, float)
KILN_VECTORS(double, double)

#undef KILN_VECTORS
#undef KILN_VECTOR1
#undef KILN_VECTOR2
#undef KILN_VECTOR3
#undef KILN_VECTOR4
