// SPDX-License-Identifier: Apache-2.0
//
// The words of CUDA C++ that a template may use on every backend: one kernel that calls each of them, through
// all three compilers, and what else the prelude adds for one backend or the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/host_arch.h"
#include "compile/compiler.h"
#include "nvrtc_version.h"
#include "prelude.h"
#include "require.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kWords = R"(
template <class V> __device__ float sum2(V v) { return float(v.x) + float(v.y); }
template <class V> __device__ float sum3(V v) { return sum2(v) + float(v.z); }
template <class V> __device__ float sum4(V v) { return sum3(v) + float(v.w); }

static_assert(sizeof(kiln::TensorMap) == 128 && alignof(kiln::TensorMap) == 128, "");
static_assert(sizeof(short2) == 4 && sizeof(ushort4) == 8 && sizeof(char4) == 4 && sizeof(uchar2) == 2, "");
static_assert(alignof(short4) == 8 && alignof(uchar4) == 4 && sizeof(longlong2) == 16, "");
static_assert(sizeof(double2) == 16 && sizeof(ulonglong2) == 16 && sizeof(float3) == 12, "");

extern "C" __global__ void __launch_bounds__(128) words(const float* in, int n, float* out) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    __builtin_assume(n > 0);
    const float x = __ldg(in + i);
    const double d = x;
    float s = 0;
    // mathematics
    s += sqrtf(x) + rsqrtf(x) + cbrtf(x) + expf(x) + exp2f(x) + exp10f(x) + expm1f(x) + logf(x) + log2f(x);
    s += log10f(x) + log1pf(x) + sinf(x) + cosf(x) + tanf(x) + asinf(x) + acosf(x) + atanf(x) + sinhf(x);
    s += coshf(x) + tanhf(x) + erff(x) + erfcf(x) + fabsf(x) + floorf(x) + ceilf(x) + truncf(x) + roundf(x);
    s += rintf(x) + nearbyintf(x) + powf(x, x) + fmodf(x, 3.0f) + atan2f(x, x) + hypotf(x, x) + copysignf(x, x);
    s += fmaf(x, x, x) + fmaxf(x, 1.0f) + fminf(x, 1.0f) + fdimf(x, 1.0f) + ldexpf(x, 3) + lgammaf(x);
    s += float(sqrt(d) + rsqrt(d) + exp(d) + exp2(d) + log(d) + log2(d) + fabs(d) + floor(d) + ceil(d) + fma(d, d, d));
    s += float(fmax(d, 1.0) + fmin(d, 1.0) + pow(d, d) + tanh(d) + erf(d) + trunc(d) + rint(d) + lgamma(d));
    s += __expf(x) + __logf(x) + __log2f(x) + __log10f(x) + __sinf(x) + __cosf(x) + __powf(x, x) + __fdividef(x, x);
    s += __fmaf_rn(x, x, x) + __fadd_rn(x, x) + __fsub_rn(x, x) + __fmul_rn(x, x) + __fdiv_rn(x, x);
    s += __frcp_rn(x) + __fsqrt_rn(x) + __saturatef(x);
    s += min(x, 2.0f) + max(x, 2.0f) + float(min(i, 3) + max(i, 3) + abs(i)) + float(min(i, 3u));
    if (isnan(x) || isinf(x) || !isfinite(x) || signbit(x)) s += 1;
    float sine, cosine;
    sincosf(x, &sine, &cosine);
    s += sine + cosine;
    // conversions, bits
    s += float(__float2int_rn(x) + __float2int_rz(x) + __float2int_rd(x) + __float2int_ru(x)) + __int2float_rn(i);
    s += float(__float2uint_rn(x) + __float2uint_rz(x)) + __uint2float_rn(unsigned(i)) + float(__float2ll_rn(x));
    s += float(__float_as_int(x)) + float(__float_as_uint(x)) + __int_as_float(i) + __uint_as_float(unsigned(i));
    s += float(__double_as_longlong(d)) + float(__longlong_as_double(i));
    const unsigned u = __float_as_uint(x);
    const unsigned long long l = u * 77ull;
    s += float(__popc(u) + __popcll(l) + __ffs(int(u)) + __ffsll((long long)l) + __clz(int(u)) + __clzll((long long)l));
    s += float(__brev(u)) + float(__brevll(l)) + float(__umulhi(u, u)) + float(__mulhi(i, i)) + float(__umul64hi(l, l));
    s += float(__byte_perm(u, ~u, 0x3715u)) + float(__funnelshift_l(u, ~u, 5u)) + float(__funnelshift_r(u, ~u, 5u));
    s += float(__mul24(i, i));
    // vectors
    s += sum2(make_short2(1, 2)) + sum4(make_short4(1, 2, 3, 4)) + sum2(make_ushort2(1, 2)) + sum4(make_ushort4(1, 2, 3, 4));
    s += sum2(make_char2(1, 2)) + sum4(make_char4(1, 2, 3, 4)) + sum2(make_uchar2(1, 2)) + sum4(make_uchar4(1, 2, 3, 4));
    s += sum2(make_int2(1, i)) + sum3(make_int3(1, 2, i)) + sum4(make_int4(1, 2, 3, i)) + sum2(make_uint2(1, u));
    s += sum3(make_uint3(1, 2, u)) + sum4(make_uint4(1, 2, 3, u)) + sum2(make_float2(1, x)) + sum3(make_float3(1, 2, x));
    s += sum4(make_float4(1, 2, 3, x)) + sum2(make_double2(1, d)) + sum2(make_longlong2(1, i)) + sum2(make_ulonglong2(1, u));
    // memory
    __shared__ int counter;
    __shared__ float shared_sum;
    atomicAdd(&counter, 1);
    atomicAdd(&shared_sum, x);
    atomicMax(&counter, i);
    atomicMin(&counter, i);
    atomicExch(&counter, i);
    atomicCAS(&counter, i, 3);
    atomicOr((unsigned*)&counter, u);
    atomicAnd((unsigned*)&counter, u);
    atomicXor((unsigned*)&counter, u);
    __threadfence_block();
    __threadfence();
    __threadfence_system();
    __nanosleep(20);
    s += float(clock64() & 1);
    // together
    __syncthreads();
    s += float(__syncthreads_count(i > 3) + __syncthreads_or(i > 3) + __syncthreads_and(i > 3));
    const auto lanes = __activemask();
    s += __shfl_sync(lanes, s, 0) + __shfl_xor_sync(lanes, s, 1) + __shfl_up_sync(lanes, s, 1);
    s += __shfl_down_sync(lanes, float(i), 1) + __shfl_sync(lanes, u, 3, 8) + float(__shfl_xor_sync(lanes, d, 1));
    s += float(__shfl_sync(lanes, l, 1));
    __syncwarp();
    out[i] = s;
}
)";

void compile_words(Compiler& compiler, const char* tool, const Target& target) {
    try {
        compiler.identity();
    } catch (const BuildError& error) {
        KILN_REQUIRE_OR_SKIP(tool, false, error.what());
    }
    const Binary binary = compiler.compile(test::prelude_source("words", kWords), target);
    EXPECT_FALSE(binary.bytes.empty());
    EXPECT_THAT(binary.log, Not(HasSubstr("warning"))) << target.arch;
}

TEST(PreludeWords, CompileForCuda) {
    const auto compiler = make_nvrtc_compiler();
    for (const char* arch : {"sm_75", "sm_90a"}) compile_words(*compiler, "nvrtc", {Backend::cuda, arch, {}});
}

TEST(PreludeWords, CompileForHip) {
    const auto compiler = make_hiprtc_compiler(std::make_shared<WorkerPool>(WorkerLimits{}));
    for (const char* arch : {"gfx90a", "gfx1030"})
        compile_words(*compiler, "hiprtc", {Backend::hip, arch, {}});
}

TEST(PreludeWords, CompileForTheHost) {
    const auto compiler = make_host_compiler(WorkerLimits{});
    compile_words(*compiler, "host", {Backend::host, host_arch(), {}});
}

constexpr const char* kNamed = R"(
extern "C" __global__ void __launch_bounds__(128) named(float* out) {
    __shared__ float s[128];
    s[threadIdx.x] = out[threadIdx.x];
    if (threadIdx.x < 64) kiln::named_barrier_sync(1, 128);
    else kiln::named_barrier_arrive(1, 128);
    out[threadIdx.x] = s[threadIdx.x ^ 64];
}
)";

TEST(PreludeWords, NamedBarriersAreTheInstructions) {
    const auto compiler = make_nvrtc_compiler();
    try {
        compiler->identity();
    } catch (const BuildError& error) {
        KILN_REQUIRE_OR_SKIP("nvrtc", false, error.what());
    }
    const Target target{Backend::cuda, "sm_90a", {}};
    const std::string ptx = compiler->ptx(test::prelude_source("named", kNamed), target);
    EXPECT_THAT(ptx, HasSubstr("bar.sync"));
    EXPECT_THAT(ptx, HasSubstr("bar.arrive"));
    const Binary binary = compiler->compile(test::prelude_source("named", kNamed), target);
    if (test::nvrtc_version() >= std::pair(12, 6)) {  // ptxas of CUDA 12.5 and before tells no number
        EXPECT_THAT(binary.log, HasSubstr("used 2 barriers")) << "number 1 takes 0 and 1, and no more";
    }
}

TEST(PreludeWords, NamedBarriersAreRejectedForHip) {
    const auto compiler = make_hiprtc_compiler(std::make_shared<WorkerPool>(WorkerLimits{}));
    try {
        compiler->identity();
    } catch (const BuildError& error) {
        KILN_REQUIRE_OR_SKIP("hiprtc", false, error.what());
    }
    try {
        compiler->compile(test::prelude_source("named", kNamed), {Backend::hip, "gfx90a", {}});
        FAIL() << "it compiled";
    } catch (const BuildError& error) {
        EXPECT_THAT(error.what(), HasSubstr("named barriers need CUDA or the host"));
    }
}

}  // namespace
}  // namespace kiln
