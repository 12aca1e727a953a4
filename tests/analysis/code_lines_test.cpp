// SPDX-License-Identifier: Apache-2.0
//
// Which line each access of compiled code belongs to: inlined functions, headers, widths, the templates that are
// shipped, and bytes that are damaged.
#include "analysis/code_lines.h"

#include <gmock/gmock.h>

#include <random>

#include "analysis/code_lines_dwarf.h"
#include "analysis_support.h"

namespace kiln {

bool operator==(const CompiledAccess& a, const CompiledAccess& b) {
    return a.line == b.line && a.instruction == b.instruction && a.count == b.count && a.bytes == b.bytes &&
           a.inner == b.inner;
}
void PrintTo(const CompiledAccess& access, std::ostream* out) {
    *out << access.line << " " << access.instruction << " " << access.bytes << " x" << access.count << " ("
         << access.inner << ")";
}

namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using Accesses = std::vector<CompiledAccess>;

class CodeLines : public testing::Test {
  protected:
    void SetUp() override {
        const std::string why = test::why_no_compiler("sm_90a");
        KILN_REQUIRE_OR_SKIP("nvrtc", why.empty(), why);
    }
};

/// Only what starts with this.
Accesses those(const Accesses& all, std::string_view instruction) {
    Accesses some;
    for (const CompiledAccess& one : all)
        if (one.instruction.starts_with(instruction)) some.push_back(one);
    return some;
}

// compile_text puts six lines before the text: its first line, the one of the newline behind R"(, is 7.
TEST_F(CodeLines, WidthsByLine) {
    const Binary binary = test::compile_text("sm_90a", R"(
extern "C" __global__ void kernel(float4* out, const unsigned short* in) {
    __shared__ float4 tile[64];
    tile[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    reinterpret_cast<unsigned short*>(tile)[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
    atomicMax(reinterpret_cast<int*>(tile) + threadIdx.x, 3);
    __syncthreads();
    out[threadIdx.x + 32].x = reinterpret_cast<float*>(tile)[threadIdx.x * 2];
}
)");
    EXPECT_THAT(compiled_accesses(binary),
                ElementsAre(CompiledAccess{10, "LDG.128", 1, 16, ""},
                            CompiledAccess{10, "STS.128", 1, 16, ""}, CompiledAccess{12, "LDG.U16", 1, 2, ""},
                            CompiledAccess{12, "STS.U16", 1, 2, ""}, CompiledAccess{14, "LDS.128", 1, 16, ""},
                            CompiledAccess{14, "STG.128", 1, 16, ""}, CompiledAccess{15, "ATOMS", 1, 4, ""},
                            CompiledAccess{17, "LDS", 1, 4, ""}, CompiledAccess{17, "STG", 1, 4, ""}));
}

// A function of the template, inlined in another, counts at its own line; one of a header at the line that calls it.
TEST_F(CodeLines, InlinedFunctions) {
    const Binary binary = test::compile_text("sm_90a", R"(
#include "kiln/reduce.h"
__shared__ float tile[4096];
__device__ __forceinline__ void put(int at, float value) {
    tile[at] = value;
}
__device__ __forceinline__ void put_both(int at, float value) {
    put(at, value);
    put(at + 2048, value * 2);
}
__device__ __noinline__ float far_away(int at, float value) {
    put(at * 3, value);
    __syncthreads();
    return tile[at ^ 5];
}
extern "C" __global__ void kernel(float* out) {
    const int at = threadIdx.x;
    put_both(at, out[at]);
    __syncthreads();
    out[at] = far_away(at, tile[at ^ 9]) + far_away(at + 1, tile[at ^ 3]);
    __shared__ float partial[kiln::kWarpSize];
    out[at] = kiln::block_reduce<256>(out[at], kiln::Sum(), partial);
}
)");
    const Accesses all = compiled_accesses(binary);
    const Accesses stores = those(all, "STS");
    int of_put = 0, of_header = 0;
    for (const CompiledAccess& one : stores) {
        if (one.inner.empty()) {
            EXPECT_EQ(one.line, 11);
        }
        (one.inner.empty() ? of_put : of_header) += one.count;
    }
    EXPECT_EQ(of_put, 3);
    EXPECT_GE(of_header, 1);
    for (const CompiledAccess& one : all)
        if (!one.inner.empty()) {
            EXPECT_EQ(one.line, 28) << one.instruction;
            EXPECT_THAT(one.inner, testing::StartsWith("kiln/reduce.h:")) << one.instruction;
        }
    EXPECT_THAT(all, Contains(CompiledAccess{20, "LDS", 1, 4, ""}));
    EXPECT_THAT(all, Contains(CompiledAccess{24, "LDG", 1, 4, ""}));
}

TEST_F(CodeLines, MatricesAndCopies) {
    const Binary binary = test::compile_text("sm_90a", R"(
extern "C" __global__ void kernel(float* out) {
    __shared__ float tile[512];
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(tile)) + threadIdx.x * 16;
    unsigned a, b, c, d;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" : : "r"(at), "l"(out));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(at), "l"(out));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(b), "=r"(c) : "r"(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at + a + b + c));
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" : : "r"(at), "r"(a), "r"(d));
    atomicCAS(reinterpret_cast<unsigned long long*>(tile) + threadIdx.x, 1ull, 2ull);
    out[threadIdx.x] = __uint_as_float(a + b + c + d);
}
)");
    const Accesses all = compiled_accesses(binary);
    EXPECT_THAT(those(all, "LDGSTS"),
                ElementsAre(CompiledAccess{12, "LDGSTS", 1, 8, ""}, CompiledAccess{13, "LDGSTS", 1, 16, ""}));
    EXPECT_THAT(those(all, "LDSM"),
                ElementsAre(CompiledAccess{14, "LDSM", 1, 4, ""}, CompiledAccess{15, "LDSM", 1, 8, ""},
                            CompiledAccess{16, "LDSM", 1, 16, ""}));
    EXPECT_THAT(those(all, "STSM"), ElementsAre(CompiledAccess{17, "STSM", 1, 8, ""}));
    EXPECT_THAT(those(all, "ATOMS"), ElementsAre(CompiledAccess{18, "ATOMS", 1, 8, ""}));
}

// Whatever the code holds is told at some line, and lines are those of the file.
TEST_F(CodeLines, ShippedTemplates) {
    for (const char* arch : {"sm_75", "sm_90a"}) {
        Service service(test::compile_for(arch));
        for (const char* name : {"gemm_tiled", "softmax"}) {
            SCOPED_TRACE(std::string(name) + " " + arch);
            const Template parsed = service.find(name);
            const Binary binary = service.compile(parsed.variant()).binary;
            const auto instructions = resources_of(binary).instructions;
            std::map<std::string, int> found, expected;
            for (const CompiledAccess& one : compiled_accesses(binary)) {
                EXPECT_GT(one.line, 0) << one.instruction;
                found[one.instruction] += one.count;
            }
            for (const auto& [instruction, count] : instructions)
                for (const char* kind : {"LDS", "STS", "LDG", "STG", "ATOMS"})
                    if (instruction.starts_with(kind)) expected[instruction] = count;
            EXPECT_EQ(found, expected);
            EXPECT_FALSE(found.empty());
        }
    }
}

TEST_F(CodeLines, NothingWhereNothingIsKnown) {
    Binary binary = test::compile_text("sm_90a", R"(
extern "C" __global__ void kernel(float* out) { out[threadIdx.x] = 1; }
)");
    EXPECT_EQ(compiled_accesses(binary).size(), 1U);
    Binary other = binary;
    other.entry = "another";
    EXPECT_THAT(compiled_accesses(other), IsEmpty());
    for (const BinaryKind kind : {BinaryKind::ptx, BinaryKind::code_object, BinaryKind::shared_object}) {
        other = binary;
        other.kind = kind;
        EXPECT_THAT(compiled_accesses(other), IsEmpty());
    }
    // Without the table of lines: the section has another name.
    std::string text(reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size());
    const std::size_t name = text.find(std::string(".debug_line\0", 12));
    ASSERT_NE(name, std::string::npos);
    text[name + 1] = 'x';
    const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
    binary.bytes = std::vector<std::byte>(begin, begin + text.size());
    EXPECT_THAT(compiled_accesses(binary), IsEmpty());
}

// Each case is a copy of exactly its size, so that a sanitizer sees a read beyond it.
TEST_F(CodeLines, Damage) {
    Binary binary = test::compile_text("sm_90a", R"(
__device__ __forceinline__ void put(float* tile, int at) { tile[at] = at; }
extern "C" __global__ void kernel(float* out, int n) {
    __shared__ float tile[64];
    put(tile, threadIdx.x);
    __syncthreads();
    for (int i = 0; i < n; ++i) out[i] = tile[i ^ n];
}
)");
    const std::vector<std::byte> whole(binary.bytes.begin(), binary.bytes.end());
    const auto elf = ElfView::open(whole);
    ASSERT_TRUE(elf);
    std::vector<std::pair<std::size_t, std::size_t>> sections;  // offset and size of what is read
    for (const char* name : {".debug_line", ".rela.debug_line", ".symtab"}) {
        const ElfSection* const section = elf->section(name);
        ASSERT_NE(section, nullptr) << name;
        sections.emplace_back(section->bytes.data() - whole.data(), section->bytes.size());
    }
    std::mt19937 random(3);
    const auto below = [&](std::size_t end) {
        return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
    };
    const std::size_t most = whole.size() / 16;
    for (int round = 0; round < 4000; ++round) {
        std::vector<std::byte> bytes = whole;
        const auto [begin, size] = sections[below(4) == 0 ? below(sections.size()) : 0];
        for (std::size_t change = 0; change <= below(6); ++change) {
            constexpr unsigned kEdges[] = {0, 1, 0x7f, 0x80, 0x90, 0xff};
            bytes[begin + below(size)] =
                static_cast<std::byte>(below(2) == 0 ? kEdges[below(6)] : below(256));
        }
        binary.bytes = Bytes(std::move(bytes));
        std::size_t total = 0;
        for (const CompiledAccess& one : compiled_accesses(binary))
            total += static_cast<std::size_t>(one.count);
        EXPECT_LE(total, most);
    }
    for (std::size_t length = 0; length < whole.size(); length += 1 + length / 40) {
        binary.bytes =
            std::vector<std::byte>(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
        (void)compiled_accesses(binary);
    }
}

}  // namespace
}  // namespace kiln
