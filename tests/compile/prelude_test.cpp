// SPDX-License-Identifier: Apache-2.0
//
// A kernel that uses every word of the prelude, through the compilers that Kiln uses, for each kind of
// architecture; and which instructions the conversions become.
#include "prelude.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "compile/compiler.h"
#include "require.h"

namespace kiln {
namespace {
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

constexpr const char* kEveryWord = R"(
static_assert(sizeof(kiln::half) == 2 && alignof(kiln::half) == 2 && __is_trivial(kiln::half), "");
static_assert(sizeof(kiln::bfloat16) == 2 && alignof(kiln::bfloat16) == 2 && __is_trivial(kiln::bfloat16), "");
static_assert(sizeof(kiln::Vec<kiln::half, 8>) == 16 && alignof(kiln::Vec<kiln::half, 8>) == 16, "");
static_assert(kiln::ceil_div(7, 4) == 2, "");

extern "C" __global__ void every_word(const float* in, kiln::half* h, kiln::bfloat16* b, float* out, int n) {
    __shared__ kiln::half tile[64];  // trivial, so it needs no constructor
    float* dynamic = kiln::dynamic_shared<float>();
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const int lane = int(threadIdx.x % warpSize);
    float value = 0;
    if (i < n) {
        h[i] = kiln::half(in[i]);
        b[i] = kiln::bfloat16(in[i]);
        value = float(h[i]) + float(b[i]);
    }
    tile[threadIdx.x % 64] = kiln::half(value);
    dynamic[threadIdx.x] = value;
    __syncthreads();
    value += float(tile[(threadIdx.x + 1) % 64]) + dynamic[0];
    const auto everyone = __activemask();
    value += __shfl_sync(everyone, value, 0) + __shfl_up_sync(everyone, value, 1);
    value += __shfl_down_sync(everyone, value, 1) + __shfl_xor_sync(everyone, value, 1);
    value += __shfl_xor_sync(everyone, lane, 2, 8);
    if (__any_sync(everyone, value > 1) && __all_sync(everyone, value < 9)) value += 1;
    value += float(__ballot_sync(everyone, lane & 1) & 1);
    __syncwarp();
    auto vector = kiln::load<4>(out + 4 * i);
    vector[0] += kiln::max(value, 1.0f);
    kiln::store(out + 4 * i, vector);
}
)";

TEST(CudaPrelude, CompilesForEachKindOfArchitectureWithoutSpills) {
    const auto compiler = make_nvrtc_compiler();
    std::string missing;
    try {
        compiler->identity();
    } catch (const BuildError& error) {
        missing = error.what();
    }
    KILN_REQUIRE_OR_SKIP("nvrtc", missing.empty(), missing);
    const std::vector<std::string> known = compiler->supported_archs();
    for (const char* arch : {"sm_75", "sm_80", "sm_90a", "sm_100a"}) {
        if (std::ranges::find(known, arch) == known.end()) continue;  // NVRTC 12.4 ends with sm_90a
        const Binary binary =
            compiler->compile(test::prelude_source("every_word", kEveryWord), {Backend::cuda, arch, {}});
        EXPECT_EQ(binary.kind, BinaryKind::cubin) << arch;
        EXPECT_THAT(binary.log, HasSubstr("0 bytes spill stores")) << arch;
        EXPECT_THAT(binary.log, Not(HasSubstr("warning"))) << arch;
    }
}

TEST(CudaPrelude, ConversionsAreSingleInstructions) {
    const auto compiler = make_nvrtc_compiler();
    std::string missing;
    try {
        compiler->identity();
    } catch (const BuildError& error) {
        missing = error.what();
    }
    KILN_REQUIRE_OR_SKIP("nvrtc", missing.empty(), missing);
    const auto ptx = [&](const char* arch) {
        return compiler->ptx(test::prelude_source("every_word", kEveryWord), {Backend::cuda, arch, {}});
    };
    EXPECT_THAT(ptx("sm_90a"), HasSubstr("cvt.rn.f16.f32"));
    EXPECT_THAT(ptx("sm_90a"), HasSubstr("cvt.f32.f16"));
    EXPECT_THAT(ptx("sm_80"), HasSubstr("cvt.rn.bf16.f32"));
    EXPECT_THAT(ptx("sm_75"), Not(HasSubstr("bf16")));  // which has no such instruction
}

TEST(HipPrelude, CompilesForWavesOf64And32) {
    const auto compiler = make_hiprtc_compiler(std::make_shared<WorkerPool>(WorkerLimits{}));
    std::string missing;
    try {
        compiler->identity();
    } catch (const BuildError& error) {
        missing = error.what();
    }
    KILN_REQUIRE_OR_SKIP("hiprtc", missing.empty(), missing);
    for (const char* arch : {"gfx906", "gfx90a", "gfx1030"}) {
        const Binary binary =
            compiler->compile(test::prelude_source("every_word", kEveryWord), {Backend::hip, arch, {}});
        EXPECT_EQ(binary.kind, BinaryKind::code_object) << arch;
        EXPECT_GT(binary.bytes.size(), 1000u) << arch;
        EXPECT_THAT(binary.log, Not(HasSubstr("warning"))) << arch;
    }
}

}  // namespace
}  // namespace kiln
