// SPDX-License-Identifier: Apache-2.0
//
// The prelude's functions on the host, against plain C++: conversions (with and without the processor's
// own instructions), mathematics, bits, vectors, atomics.
#include <gmock/gmock.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "host_kernel.h"

namespace kiln {
namespace {

using test::HostKernel;

std::vector<float> interesting_floats() {
    std::vector<float> values = {0.0f,     -0.0f, 1e-30f,   65504.0f,  65519.9f,
                                 65520.0f, 1e30f, INFINITY, -INFINITY, NAN};
    for (unsigned bits = 0; bits < 0x7c00;
         ++bits) {  // each half, the midpoint to the next, and its neighbours
        half here, next;
        here.bits = static_cast<std::uint16_t>(bits);
        next.bits = static_cast<std::uint16_t>(bits + 1);
        const float low = static_cast<float>(here);
        const float middle = low + (bits + 1 < 0x7c00 ? (static_cast<float>(next) - low) / 2 : 16.0f);
        for (const float v : {low, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
            values.push_back(v);
            values.push_back(-v);
        }
    }
    std::mt19937 random(1);
    for (int i = 0; i < 100'000; ++i) values.push_back(std::bit_cast<float>(static_cast<unsigned>(random())));
    return values;
}

constexpr const char* kConversions = R"(
extern "C" __global__ void kernel(int n, const float* from, unsigned short* halves, unsigned short* bfloats,
                                  float* half_values, float* bfloat_values) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        halves[i] = kiln::half(from[i]).bits;
        bfloats[i] = kiln::bfloat16(from[i]).bits;
    }
    if (i < 65536) {
        kiln::half h;
        kiln::bfloat16 b;
        h.bits = b.bits = (unsigned short)i;
        half_values[i] = float(h);
        bfloat_values[i] = float(b);
    }
})";

bool same(float a, float b) {
    return std::isnan(a) ? std::isnan(b) : std::bit_cast<unsigned>(a) == std::bit_cast<unsigned>(b);
}

void check_conversions(const std::string& arch) {
    const HostKernel kernel(test::compile_for_host(kConversions, "kernel", arch));
    const auto from = interesting_floats();
    const int n = static_cast<int>(from.size());
    std::vector<std::uint16_t> halves(from.size()), bfloats(from.size());
    std::vector<float> half_values(65536), bfloat_values(65536);
    kernel({static_cast<unsigned>(n / 256 + 1), 1, 1}, {256, 1, 1}, 0, n, from.data(), halves.data(),
           bfloats.data(), half_values.data(), bfloat_values.data());
    for (int i = 0; i < n; ++i) {
        if (std::isnan(from[i])) {
            ASSERT_GT(halves[i] & 0x7fff, 0x7c00);
            ASSERT_GT(bfloats[i] & 0x7fff, 0x7f80);
            continue;
        }
        ASSERT_EQ(halves[i], half(from[i]).bits) << std::hexfloat << from[i];
        ASSERT_EQ(bfloats[i], bfloat16(from[i]).bits) << std::hexfloat << from[i];
    }
    for (unsigned i = 0; i < 65536; ++i) {
        half h;
        bfloat16 b;
        h.bits = b.bits = static_cast<std::uint16_t>(i);
        ASSERT_TRUE(same(half_values[i], static_cast<float>(h))) << i;
        ASSERT_TRUE(same(bfloat_values[i], static_cast<float>(b))) << i;
    }
}

TEST(HostPrelude, ConvertsHalfAndBfloat16) { check_conversions(host_arch()); }

TEST(HostPrelude, ConvertsWithoutF16cInstructions) {
    if (!host_arch().starts_with("x86-64")) GTEST_SKIP() << "no x86";
    check_conversions("x86-64-v2");
}

TEST(HostPrelude, HasCudaMathematics) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(const float* in, int n, float* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float x = in[i];
    float* o = out + 24 * i;
    *o++ = sqrtf(x); *o++ = rsqrtf(x); *o++ = expf(x); *o++ = __expf(x); *o++ = exp2f(x); *o++ = logf(x);
    *o++ = log2f(x); *o++ = fabsf(-x); *o++ = tanhf(x); *o++ = floorf(x); *o++ = ceilf(x); *o++ = fmaf(x, x, -x);
    *o++ = __fmaf_rn(x, 3.0f, 1.0f); *o++ = fmaxf(x, 1.5f); *o++ = fminf(x, 1.5f); *o++ = fmaxf(__int_as_float(0x7fc00000), x);
    *o++ = fminf(x, __int_as_float(0x7fc00000)); *o++ = powf(x, 2.5f); *o++ = sinf(x); *o++ = erff(x);
    *o++ = __fdividef(x, 3.0f); *o++ = min(x, 2.0f); *o++ = max(x, 2.0f); *o++ = float(sqrt(double(x)));
})");
    const std::vector<float> in = {0.125f, 0.5f, 1.0f, 1.75f, 3.0f, 10.5f};
    std::vector<float> out(in.size() * 24);
    kernel({2, 1, 1}, {32, 1, 1}, 0, in.data(), static_cast<int>(in.size()), out.data());
    for (std::size_t i = 0; i < in.size(); ++i) {
        const float x = in[i];
        const float expected[24] = {std::sqrt(x),
                                    1 / std::sqrt(x),
                                    std::exp(x),
                                    std::exp(x),
                                    std::exp2(x),
                                    std::log(x),
                                    std::log2(x),
                                    x,
                                    std::tanh(x),
                                    std::floor(x),
                                    std::ceil(x),
                                    std::fma(x, x, -x),
                                    std::fma(x, 3.0f, 1.0f),
                                    std::max(x, 1.5f),
                                    std::min(x, 1.5f),
                                    x,
                                    x,
                                    std::pow(x, 2.5f),
                                    std::sin(x),
                                    std::erf(x),
                                    x / 3.0f,
                                    std::min(x, 2.0f),
                                    std::max(x, 2.0f),
                                    std::sqrt(x)};
        for (int j = 0; j < 24; ++j)
            EXPECT_FLOAT_EQ(out[24 * i + j], expected[j]) << "function " << j << " of " << x;
    }
}

TEST(HostPrelude, HasBitsCastsAndVectors) {
    const HostKernel kernel(R"(
static_assert(kiln::ceil_div(10, 3) == 4 && kiln::min(2, 3) == 2 && kiln::max(2, 3) == 3, "");
static_assert(sizeof(kiln::half) == 2 && sizeof(kiln::bfloat16) == 2 && sizeof(kiln::i64) == 8, "");
static_assert(alignof(kiln::Vec<kiln::half, 8>) == 16 && alignof(kiln::Vec<float, 2>) == 8, "");
static_assert(alignof(kiln::Vec<double, 4>) == 16 && sizeof(float4) == 16 && alignof(float4) == 16, "");
static_assert(alignof(uint2) == 8 && sizeof(float3) == 12 && warpSize == 32, "");
static_assert(min(-1, 3u) == 3u && max(2ll, 3ll) == 3ll, "");
extern "C" __global__ void kernel(unsigned x, unsigned long long y, const float* in, float* vectors, long long* out) {
    *out++ = __popc(x); *out++ = __popcll(y); *out++ = __ffs(int(x)); *out++ = __ffsll((long long)y);
    *out++ = __clz(int(x)); *out++ = __clzll((long long)y); *out++ = __brev(x); *out++ = (long long)__brevll(y);
    *out++ = __umulhi(x, 0x87654321u); *out++ = __mulhi(int(x), -77777777);
    *out++ = (long long)__umul64hi(y, 0x123456789abcdefull);
    *out++ = __float_as_int(-1.5f); *out++ = __float_as_uint(2.5f); *out++ = int(__uint_as_float(0x40a00000u));
    *out++ = __double_as_longlong(0.1); *out++ = (long long)__longlong_as_double(0x4059000000000000ll);
    *out++ = __clz(0) + __clzll(0) + __ffs(0); *out++ = __ldg(in) == in[0]; *out++ = clock64() != 0;
    auto v = kiln::load<4>(in);
    v[1] += 10.0f;
    kiln::store(vectors, v);
    const float2 f2 = make_float2(1, 2);
    const int4 i4 = make_int4(1, 2, 3, 4);
    const uint4 u4 = make_uint4(5, 6, 7, 8);
    const uint2 u2 = make_uint2(9, 10);
    vectors[4] = f2.y + i4.w + u4.z + u2.x + dim3(3, 4).y + dim3(3).z;
})");
    const unsigned x = 0x00f13570u;
    const unsigned long long y = 0x0000f135'70000000ull;
    alignas(16) const float in[4] = {1, 2, 3, 4};
    alignas(16) float vectors[5] = {};
    std::vector<long long> out(19);
    kernel({}, {}, 0, x, y, &in[0], &vectors[0], out.data());
    const auto reversed = [](unsigned long long v, int bits) {
        unsigned long long r = 0;
        for (int i = 0; i < bits; ++i) r |= (v >> i & 1) << (bits - 1 - i);
        return static_cast<long long>(r);
    };
    const std::vector<long long> expected = {
        std::popcount(x),
        std::popcount(y),
        std::countr_zero(x) + 1,
        std::countr_zero(y) + 1,
        std::countl_zero(x),
        std::countl_zero(y),
        reversed(x, 32),
        reversed(y, 64),
        static_cast<long long>((x * 0x87654321ull) >> 32),
        (static_cast<long long>(x) * -77777777) >> 32,
        static_cast<long long>(0x112a3d5ull * 0 +
                               static_cast<unsigned long long>(
                                   (static_cast<unsigned __int128>(y) * 0x123456789abcdefull) >> 64)),
        std::bit_cast<int>(-1.5f),
        std::bit_cast<int>(2.5f),
        5,
        std::bit_cast<long long>(0.1),
        100,
        96,
        1,
        1};
    EXPECT_EQ(out, expected);
    EXPECT_THAT(vectors, testing::ElementsAre(1, 12, 3, 4, 2 + 4 + 7 + 9 + 4 + 1));
}

TEST(HostPrelude, AtomicsHoldAcrossBlocks) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned long long wide = (unsigned long long)t << 20;
    atomicAdd(&i[0], 2); atomicSub(&i[1], 3); atomicMin(&i[2], -t); atomicMax(&i[3], t);
    atomicAnd(&i[4], ~(1 << t % 31)); atomicOr(&i[5], 1 << t % 31); atomicXor(&i[6], t);
    atomicAdd(&u[0], 2); atomicSub(&u[1], 3); atomicMin(&u[2], 1000000u - t); atomicMax(&u[3], t);
    atomicAnd(&u[4], ~(1u << t % 31)); atomicOr(&u[5], 1u << t % 31); atomicXor(&u[6], t); atomicInc(&u[7], 9u); atomicDec(&u[8], 9u);
    atomicAdd(&l[0], wide); atomicMin(&l[1], (1ull << 60) - wide); atomicMax(&l[2], wide);
    atomicAnd(&l[3], ~(1ull << t % 63)); atomicOr(&l[4], 1ull << t % 63); atomicXor(&l[5], wide);
    atomicAdd(&f[0], 1.0f); atomicAdd(&d[0], 0.5);
    // A lock over plain memory.
    for (unsigned seen = *(volatile unsigned*)&u[9];;) {
        const unsigned old = atomicCAS(&u[9], seen, seen + 2);
        if (old == seen) break;
        seen = old;
    }
    for (unsigned long long seen = 0;;) {
        const unsigned long long old = atomicCAS(&l[6], seen, seen + 5);
        if (old == seen) break;
        seen = old;
    }
    // Every value that is put in comes out once: the sum of what came out and what stayed is that of all.
    atomicAdd(&u[11], atomicExch(&u[10], unsigned(t)));
    atomicAdd(&l[8], atomicExch(&l[7], (unsigned long long)t));
    atomicAdd(&f[2], atomicExch(&f[1], t % 2 ? 1.0f : 2.0f));
    atomicAdd(&i[8], atomicExch(&i[7], t % 5));
    __threadfence();
    __threadfence_block();
})");
    const Dim3 grid{64, 1, 1}, block{128, 1, 1};
    constexpr int n = 64 * 128;
    std::vector<int> i(9);
    std::vector<unsigned> u(12);
    std::vector<unsigned long long> l(9);
    std::vector<float> f(3);
    std::vector<double> d(1);
    i[4] = -1, u[4] = ~0u, l[3] = ~0ull, u[2] = ~0u, l[1] = ~0ull;
    kernel(grid, block, 0, i.data(), u.data(), l.data(), f.data(), d.data());
    EXPECT_THAT(std::vector<int>(i.begin(), i.begin() + 7),
                testing::ElementsAre(2 * n, -3 * n, 1 - n, n - 1, INT_MIN, INT_MAX, 0));
    EXPECT_THAT(std::vector<unsigned>(u.begin(), u.begin() + 10),
                testing::ElementsAre(2u * n, -3u * n, 1000000u - n + 1, n - 1u, 1u << 31, ~(1u << 31), 0u,
                                     n % 10u, (10 - n % 10) % 10u, 2u * n));
    EXPECT_THAT(std::vector<unsigned long long>(l.begin(), l.begin() + 7),
                testing::ElementsAre((n * (n - 1ull) / 2) << 20, (1ull << 60) - ((n - 1ull) << 20),
                                     (n - 1ull) << 20, 1ull << 63, ~(1ull << 63), 0ull, 5ull * n));
    EXPECT_EQ(f[0], n);
    EXPECT_EQ(d[0], n / 2);
    EXPECT_EQ(u[10] + u[11], n * (n - 1u) / 2);
    EXPECT_EQ(l[7] + l[8], n * (n - 1ull) / 2);
    EXPECT_EQ(f[1] + f[2], 1.5f * n);
    int fives = 0;
    for (int t = 0; t < n; ++t) fives += t % 5;
    EXPECT_EQ(i[7] + i[8], fives);
}

TEST(HostPrelude, ConvertsToIntegersAndPicksBytes) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(const float* in, int n, long long* out) {
    const int i = threadIdx.x;
    if (i >= n) return;
    const float x = in[i];
    long long* o = out + 12 * i;
    *o++ = __float2int_rn(x); *o++ = __float2int_rz(x); *o++ = __float2int_rd(x); *o++ = __float2int_ru(x);
    *o++ = __float2uint_rn(x); *o++ = __float2ll_rn(x); *o++ = (long long)(__float2ull_rn(x) >> 1);
    *o++ = isnan(x); *o++ = isinf(x); *o++ = isfinite(x); *o++ = signbit(x); *o++ = 100.0f * __saturatef(x);
})");
    const std::vector<float> in = {2.5f, -3.5f, 0.25f, 5e9f, -5e9f, 1e30f, -INFINITY, NAN};
    const long long lowest = std::numeric_limits<long long>::min(), largest = -(lowest + 1);
    // What cvt does: saturates, and takes a NaN for 0, in 64 bits for the highest bit.
    const std::vector<long long> expected = {
        2,           2,           2,           3,           2,          2,
        1,           0,           0,           1,           0,          100,  //
        -4,          -3,          -4,          -3,          0,          -4,
        0,           0,           0,           1,           1,          0,  //
        0,           0,           0,           1,           0,          0,
        0,           0,           0,           1,           0,          25,  //
        2147483647,  2147483647,  2147483647,  2147483647,  4294967295, 5000000000,
        2500000000,  0,           0,           1,           0,          100,  //
        -2147483648, -2147483648, -2147483648, -2147483648, 0,          -5000000000,
        0,           0,           0,           1,           1,          0,  //
        2147483647,  2147483647,  2147483647,  2147483647,  4294967295, largest,
        largest,     0,           0,           1,           0,          100,  //
        -2147483648, -2147483648, -2147483648, -2147483648, 0,          lowest,
        0,           0,           1,           0,           1,          0,  //
        0,           0,           0,           0,           0,          lowest,
        1ll << 62,   1,           0,           0,           0,          0};
    std::vector<long long> out(expected.size());
    kernel({}, {32, 1, 1}, 0, in.data(), static_cast<int>(in.size()), out.data());
    EXPECT_EQ(out, expected);

    const HostKernel bits(R"(
extern "C" __global__ void kernel(unsigned a, unsigned b, unsigned* out) {
    out[0] = __byte_perm(a, b, 0x7610);
    out[1] = __byte_perm(a, b, 0x0c3f);
    out[2] = __funnelshift_l(a, b, 36);
    out[3] = __funnelshift_r(a, b, 8);
    out[4] = __funnelshift_l(a, b, 0);
    out[5] = unsigned(__mul24(-3, 5)) + unsigned(__mul24(0x01000002, 3));
})");
    unsigned words[6];
    bits({}, {}, 0, 0x83828180u, 0xf7e6d5c4u, &words[0]);
    EXPECT_THAT(words, testing::ElementsAre(0xf7e68180u, 0x80ff83ffu, 0x7e6d5c48u, 0xc4838281u, 0xf7e6d5c4u,
                                            unsigned(-15 + 6)));
}

// What else NVRTC has without an include.
TEST(HostPrelude, HasTheRestOfCudasBuiltIns) {
    const HostKernel kernel(R"(
template <class V, class T> constexpr bool kIsVector1 = sizeof(V) == sizeof(T) && alignof(V) == alignof(T);
static_assert(kIsVector1<char1, char> && kIsVector1<uchar1, char> && kIsVector1<short1, short> && kIsVector1<ushort1, short>, "");
static_assert(kIsVector1<int1, int> && kIsVector1<uint1, int> && kIsVector1<long1, long> && kIsVector1<ulong1, long>, "");
static_assert(kIsVector1<longlong1, long> && kIsVector1<ulonglong1, long> && kIsVector1<float1, float> && kIsVector1<double1, double>, "");
static_assert(sizeof(long2) == 16 && alignof(long2) == 16 && sizeof(ulong4) == 32 && alignof(ulong4) == 16 && sizeof(long3) == 24, "");
static_assert(sizeof(ptrdiff_t) == 8 && ptrdiff_t(-1) < 0, "");
extern "C" __global__ void kernel(double d, unsigned big, int* i, unsigned* u, unsigned long long* l, long long* s, float* f, long long* out) {
    __shared__ int bytes[4];
    *out++ = __double2hiint(d); *out++ = __double2loint(d);
    *out++ = __hiloint2double(__double2hiint(d), __double2loint(d)) == d;
    *out++ = umin(big, 2u); *out++ = umax(big, 2u); *out++ = llmin(-1ll, 2ll); *out++ = llmax(-1ll, 2ll);
    *out++ = ullmin(~0ull, 2ull) == 2; *out++ = ullmax(~0ull, 2ull) == ~0ull;
    *out++ = __fns(0x80000412u, 4, 0); *out++ = int(__fns(0x80000412u, 3, 0)); *out++ = __fns(0x80000412u, 2, 2);
    *out++ = __fns(0x80000412u, 31, -3); *out++ = int(__fns(0x80000412u, 1, -2)); *out++ = __fns(0x80000412u, 1, 1);
    memset(bytes, 0x11, sizeof(bytes));
    memcpy(bytes + 1, out - 1, 4);
    *out++ = bytes[0] + bytes[1];
    const auto before = clock();
    const auto after = clock();
    *out++ = before != 0 && before <= after;
    *out++ = make_float1(3).x + make_int1(4).x + make_long2(5, 6).y + make_ulong4(1, 2, 3, 4).w + make_uint1(1).x;
    *out++ = atomicAdd_block(i, 2) + atomicAdd_system(i, 3) + atomicSub_block(i, 1); *out++ = *i;
    *out++ = atomicCAS_block(u, 5u, 9u) + atomicExch_system(u, 7) + atomicMax_block(u, 8) + atomicMin_system(u, 2); *out++ = *u;
    *out++ = atomicInc_block(u, 2u) + atomicDec_system(u, 9u); *out++ = *u;
    *out++ = atomicOr_block(l, 0x100ull) + atomicAnd_system(l, 0x101) + atomicXor_block(l, 1ull); *out++ = *l;
    *out++ = atomicAnd(s, ~5ll); *out++ = atomicOr_block(s, 1ll << 40); *out++ = atomicXor_system(s, -1ll); *out++ = *s;
    atomicAdd_block(f, 1.5f); atomicAdd_system(f, 1);
})");
    const double d = -1.2345678901234e-200;
    int i = 10;
    unsigned u = 5;
    unsigned long long l = 3;
    long long s = 7;
    float f = 1;
    std::vector<long long> out(30, 99);
    kernel({}, {}, 0, d, 0xfffffff0u, &i, &u, &l, &s, &f, out.data());
    const auto bits = std::bit_cast<unsigned long long>(d);
    const std::vector<long long> expected = {static_cast<int>(bits >> 32),
                                             static_cast<int>(bits),
                                             1,
                                             2,
                                             0xfffffff0u,
                                             -1,
                                             2,
                                             1,
                                             1,  //
                                             4,
                                             -1,
                                             10,
                                             4,
                                             -1,
                                             1,  //
                                             0x11111112,
                                             1,
                                             3 + 4 + 6 + 4 + 1,
                                             10 + 12 + 15,
                                             14,
                                             5 + 9 + 7 + 8,
                                             2,
                                             2 + 0,
                                             9,
                                             3 + 0x103 + 0x101,
                                             0x100,
                                             7,
                                             2,
                                             1ll << 40 | 2,
                                             ~(1ll << 40 | 2)};
    EXPECT_EQ(out, expected);
    EXPECT_EQ(f, 3.5f);
}

// Compensated sums rest on it.
TEST(HostPrelude, RoundsProductsThatSaySo) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(float a, float b, float c, float* out) {
    out[0] = __fadd_rn(__fmul_rn(a, b), c);
    out[1] = __fmul_rn(a, b) - c;
    out[2] = __fsub_rn(a * b, c);
    out[3] = __fmaf_rn(a, b, c);
})");
    const float a = 1.0f + 0x1p-12f, b = 1.0f + 0x1p-13f;
    const float c = -static_cast<float>(static_cast<double>(a) * b);
    float out[4];
    kernel({}, {}, 0, a, b, c, &out[0]);
    EXPECT_EQ(out[0], 0.0f);
    EXPECT_EQ(out[1], -2 * c);
    EXPECT_EQ(out[2], -2 * c);
    EXPECT_EQ(out[3], 0x1p-25f);
}

// A GPU's compiler assumes nothing of types: kernels move halves as float4, and use memory for one type after the other.
TEST(HostPrelude, SeesOneMemoryAsSeveralTypes) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(const kiln::half* x, kiln::half* y, const float* f, float* g) {
    alignas(16) __shared__ kiln::half s[512];
    extern __shared__ float dynamic[];
    const int t = threadIdx.x;
    *reinterpret_cast<float4*>(&s[8 * t]) = *reinterpret_cast<const float4*>(x + 8 * t);
    for (int j = 0; j < 8; ++j) s[8 * t + j] = kiln::half(2 * float(s[8 * t + j]));
    *reinterpret_cast<float4*>(y + 8 * t) = *reinterpret_cast<float4*>(&s[8 * t]);
    dynamic[t] = f[t];
    int* const bits = (int*)dynamic;
    bits[t] = bits[t] ^ 0x80000000;
    g[t] = dynamic[t];
})");
    alignas(16) std::array<half, 512> x{}, y{};
    std::array<float, 64> f{}, g{};
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = half(static_cast<float>(i));
    for (std::size_t i = 0; i < f.size(); ++i) f[i] = static_cast<float>(i) + 1;
    kernel({}, {64, 1, 1}, 256, x.data(), y.data(), f.data(), g.data());
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(static_cast<float>(y[i]), 2.0f * i) << i;
    for (std::size_t i = 0; i < f.size(); ++i) ASSERT_EQ(g[i], -f[i]) << i;
}

TEST(HostPrelude, LivesBesideTheStandardHeaders) {
    const HostKernel kernel(R"(
#include <math.h>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
extern "C" double rsqrt(double) noexcept;  // as a <math.h> of C23 declares them
extern "C" float rsqrtf(float) noexcept;
extern "C" __global__ void kernel(float* out) {
    out[0] = std::sqrt(expf(fmaxf(out[0], 2.0f))) + std::min<size_t>(2, 3) + (isnan(out[0]) || std::isinf(out[0]));
    out[0] += abs(-out[0]) - std::abs(out[0]) + sin(out[0]) - std::sin(out[0]) + pow(2, 3) - std::pow(2, 3.0f) + std::fabs(0) +
              std::pow(1.0f, 2) - pow(1.0, 2.0f) + std::isnan(1) + fma(0, 0.0f, 0.0) + std::abs(1ll) - abs(-1l);
})");
    float out = 0;
    kernel({}, {}, 0, &out);
    EXPECT_FLOAT_EQ(out, std::exp(1.0f) + 2);
}

}  // namespace
}  // namespace kiln
