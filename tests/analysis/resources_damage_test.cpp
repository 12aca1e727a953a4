// SPDX-License-Identifier: Apache-2.0
//
// resources_of with bytes that are no binary any more: it says less, and nothing else happens. Each case is a
// copy of exactly its size, so that a sanitizer sees a read beyond it.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "analysis_support.h"

namespace kiln {
namespace {

void examine(Binary binary, std::vector<std::byte> bytes) {
    const std::size_t size = bytes.size();
    binary.bytes = Bytes(std::move(bytes));
    const Resources found = resources_of(binary);
    EXPECT_EQ(found.binary_bytes, size);
    const auto total = found.instructions.find("total");
    if (total != found.instructions.end()) {
        EXPECT_LE(static_cast<std::size_t>(total->second), size / 4);
    }
}

void damage(Binary binary) {
    binary.log.clear();
    const std::vector<std::byte> whole(binary.bytes.begin(), binary.bytes.end());
    for (std::size_t length = 0; length < whole.size(); length += 1 + length / 40)
        examine(binary, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)});

    std::mt19937 random(1);
    const auto below = [&](std::size_t end) {
        return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
    };
    // Half of the changes hit the headers, where they can do more harm.
    for (int round = 0; round < 3000; ++round) {
        std::vector<std::byte> bytes = whole;
        for (std::size_t change = 0; change <= below(6); ++change) {
            std::uint64_t table = 0;
            std::memcpy(&table, whole.data() + 40, sizeof table);  // e_shoff
            const std::size_t begin = below(2) == 0 ? table : 0;
            const std::size_t at = begin + below(below(2) == 0 ? 64 : whole.size() - begin);
            if (at >= bytes.size()) continue;
            constexpr unsigned kEdges[] = {0, 1, 0x7f, 0x80, 0xff};
            bytes[at] = static_cast<std::byte>(below(2) == 0 ? kEdges[below(5)] : below(256));
        }
        examine(binary, std::move(bytes));
    }
}

constexpr const char* kKernel = R"(
extern "C" __global__ void kernel(float* out, int n) {
    __shared__ float tile[32];
    tile[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[n];
}
)";

TEST(ResourcesDamage, Cubin) {
    const std::string why = test::why_no_compiler("sm_90a");
    KILN_REQUIRE_OR_SKIP("nvrtc", why.empty(), why);
    damage(test::compile_text("sm_90a", kKernel));
}

TEST(ResourcesDamage, CodeObject) {
    const std::string why = test::why_no_compiler("gfx90a");
    KILN_REQUIRE_OR_SKIP("hiprtc", why.empty(), why);
    damage(test::compile_text("gfx90a", kKernel));
}

TEST(ResourcesDamage, NoBinaryAtAll) {
    Binary binary;
    binary.entry = "kernel";
    for (const BinaryKind kind :
         {BinaryKind::cubin, BinaryKind::ptx, BinaryKind::code_object, BinaryKind::shared_object}) {
        binary.kind = kind;
        examine(binary, {});
        examine(binary, std::vector<std::byte>(100, std::byte{0x7f}));
        EXPECT_FALSE(resources_of(binary).registers);
    }
    // The log alone is enough for what it tells.
    binary.kind = BinaryKind::cubin;
    binary.log =
        "ptxas info    : Compiling entry function 'kernel' for 'sm_90a'\n"
        "ptxas info    : Function properties for kernel\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 10 registers, used 0 barriers\n";
    EXPECT_EQ(resources_of(binary).registers, 10);
    EXPECT_EQ(resources_of(binary).static_shared_bytes, 0U);
}

}  // namespace
}  // namespace kiln
