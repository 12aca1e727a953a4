// SPDX-License-Identifier: Apache-2.0
//
// Analyzer::check of kernels that fail: what was found before is told with the failure, of which it often is the cause.
#include "analyzer_support.h"
#include "rejected.h"

namespace kiln::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kFails = R"(//@ kernel  fails
//@ param   WAY int in 0..6 = 0  "what goes wrong"
//@ block   64
//@ grid    1
//@ size    n = 64
//@ input   x [n]
//@ output  y [n]
#include "kiln/device.h"

extern "C" __global__ void fails(int n, const float* x, float* y) {
    alignas(16) __shared__ float tile[64];
    const int t = threadIdx.x;
    tile[t] = x[t];
    if (WAY < 3 || WAY == 6) y[t] = tile[(t + 1) % 64];
    __syncthreads();
    if (WAY == 0) *reinterpret_cast<volatile int*>(n - 64) = 1;
    if (WAY == 1) __trap();
    if (WAY == 2) for (volatile int forever = 1; forever;) {}
    float own[8];
    for (int i = 0; i < (WAY == 3 ? n * 1000 : 8); ++i) own[i] = x[0];
    if (WAY == 4) *reinterpret_cast<volatile int*>(n - 64) = 1;
    if (WAY == 5) *reinterpret_cast<float4*>(tile) = *reinterpret_cast<const float4*>(tile + n - 63);
    if (WAY == 6 && t < 16) reinterpret_cast<float4*>(y)[t] = reinterpret_cast<const float4*>(x)[t];
    y[t] = own[t % 8];
}
)";

class CheckFailure : public Analyzing {
  protected:
    void SetUp() override {
        (void)target("host");
        try {
            const Compiled made = target().compile(target().find("copy").variant());
            is_clang_ = made.binary.compiler.find("clang") != std::string::npos;
        } catch (const BuildError& error) {
            KILN_REQUIRE_OR_SKIP("host", false, error.what());
        }
    }
    bool is_clang_ = false;
    std::string failure(int way) {
        ServiceOptions limited = target().options();
        if (way == 2) limited.host_time_limit = std::chrono::seconds(5);
        limited.isolate_host = true;
        Service service(limited);
        return rejected<DeviceError>([&] {
            static_cast<void>(
                Analyzer(service).check(service.parse(kFails, "fails.cu").variant({{"WAY", way}})));
        });
    }
};

TEST_F(CheckFailure, TellsWhatWasFoundBefore) {
    const auto race = AllOf(HasSubstr("\nBefore that it had found:\n  race: fails.cu:14 load by thread "),
                            HasSubstr("fails.cu:13 store"));
    EXPECT_THAT(failure(0), AllOf(HasSubstr("fails.cu:16"), race));
    EXPECT_THAT(failure(1), race);
    EXPECT_THAT(failure(2), AllOf(HasSubstr("time limit"), race));
    EXPECT_THAT(failure(3),
                HasSubstr("found:\n  out of bounds: fails.cu:20 index 8 of an array of type float [8]"));
    EXPECT_THAT(failure(4), AllOf(HasSubstr("fails.cu:21"), Not(HasSubstr("found"))));
    if (is_clang_) return;  // it takes vectors apart
    EXPECT_THAT(
        failure(5),
        AllOf(
            HasSubstr("fails.cu:22: it used an address that is not aligned for a vector access"),
            HasSubstr("found:\n  misaligned: fails.cu:22 load of 16 bytes by thread 0 at offset 4 of tile")));
    // Only tensors that are no better aligned than they are declared end it, in a run after the one that found the race.
    EXPECT_THAT(failure(6), AllOf(race, HasSubstr("\n  misaligned: fails.cu:23 store of 16 bytes of y")));
}

}  // namespace
}  // namespace kiln::test
