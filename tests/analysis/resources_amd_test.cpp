// SPDX-License-Identifier: Apache-2.0
//
// What is read from AMD code objects: the metadata of known kernels, exact counts, every shipped template
// against llvm-objdump where that is installed; and the reader of MessagePack.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "analysis/amd_code.h"
#include "analysis/msgpack.h"
#include "analysis_support.h"
#include "shared_cache.h"

namespace kiln {
namespace {

using test::count;
using testing::Optional;

constexpr const char* kHipArchs[] = {"gfx906", "gfx908", "gfx90a", "gfx1030"};

std::vector<std::byte> bytes_of(std::initializer_list<unsigned> words) {
    std::vector<std::byte> bytes;
    for (const unsigned word : words)
        for (int shift = 0; shift < 32; shift += 8)
            bytes.push_back(static_cast<std::byte>(word >> shift & 0xff));
    return bytes;
}

class CodeObjectOf : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        const std::string why = test::why_no_compiler(GetParam());
        KILN_REQUIRE_OR_SKIP("hiprtc", why.empty(), why);
    }
};

TEST_P(CodeObjectOf, Metadata) {
    const Resources found = resources_of(test::compile_text(GetParam(), R"(
extern "C" __global__ void __launch_bounds__(256) kernel(float* out, int n) {
    __shared__ float tile[256];
    float values[48];
    for (int i = 0; i < 48; ++i) values[i] = out[i];
    for (int i = 0; i < n; ++i) values[i * n % 48] += values[i % 48];
    tile[threadIdx.x] = values[n % 48];
    __syncthreads();
    out[threadIdx.x] = tile[n];
}
)"));
    EXPECT_THAT(found.static_shared_bytes, Optional(256U * 4));
    ASSERT_TRUE(found.stack_bytes);
    EXPECT_GE(*found.stack_bytes, 48U * 4);
    EXPECT_THAT(found.spill_bytes, Optional(0U));
    ASSERT_TRUE(found.registers && found.scalar_registers);
    EXPECT_GT(*found.registers, 0);
    EXPECT_LE(*found.registers, 512);
    EXPECT_GT(*found.scalar_registers, 0);
    EXPECT_EQ(count(found, "ds_read_b32"), 1);
    EXPECT_EQ(count(found, "ds_write_b32"), 1);
    EXPECT_EQ(count(found, "s_barrier"), 1);
}

TEST_P(CodeObjectOf, LabReadsWhatItSays) {
    Service service(test::compile_for(GetParam()));
    const std::pair<int, const char*> widths[] = {
        {1, "ds_read_u8"}, {2, "ds_read_u16"}, {4, "ds_read_b32"}, {8, "ds_read_b64"}, {16, "ds_read_b128"}};
    for (const auto& [width, name] : widths) {
        const Variant variant = service.find("lab_banks").variant({{"WIDTH", width}, {"PITCH", width}});
        const Resources found = resources_of(service.compile(variant).binary);
        for (const auto& [other, other_name] : widths)
            EXPECT_EQ(count(found, other_name), other == width ? 32 : 0) << width << " " << other_name;
        EXPECT_THAT(found.spill_bytes, Optional(0U));
    }
}

// By the names of Resources::instructions; only the kernel itself, without the padding behind it.
std::optional<test::Counts> objdump_counts(const Binary& binary, const test::Counts& ours) {
    static const auto program =
        test::find_program({"llvm-objdump", "llvm-objdump-14", "/opt/rocm/llvm/bin/llvm-objdump"});
    if (!program) return std::nullopt;
    const auto text = test::disassembly({*program, "-d"}, binary);
    if (!text) return std::nullopt;
    test::Counts counts;
    bool ended = false;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t comment = line.find("// ");
        if (!line.starts_with('\t') || comment == std::string::npos) continue;
        std::istringstream words(line.substr(0, comment));
        std::string name;
        words >> name;
        // Behind the last end of the program there is padding only: zeros, which look like v_cndmask.
        if (name == "s_code_end" || name == "s_nop" || (ended && name == "v_cndmask_b32_e32")) continue;
        ended = name == "s_endpgm";
        for (const char* suffix : {"_e32", "_e64", "_sdwa", "_dpp"})
            if (name.ends_with(suffix)) name.resize(name.size() - std::string_view(suffix).size());
        ++counts["total"];
        for (const char* family : {"v_mfma", "v_accvgpr_read", "v_accvgpr_write"})
            if (name.starts_with(family)) name = family;
        static constexpr std::array kGuarded = {
            "v_fma_f32",      "v_fmac_f32", "v_mac_f32", "v_pk_fma_f16",   "v_pk_fma_f32",   "v_fma_mix_f32",
            "v_dot2_f32_f16", "s_barrier",  "v_mfma",    "v_accvgpr_read", "v_accvgpr_write"};
        const bool memory = (name.starts_with("ds_read") || name.starts_with("ds_write") ||
                             name.find("_load_dword") != std::string::npos ||
                             name.find("_store_dword") != std::string::npos) &&
                            !name.starts_with("s_");
        if (memory || std::ranges::find(kGuarded, name) != kGuarded.end()) ++counts[name];
    }
    // Sub-word forms that are not guarded.
    std::erase_if(counts, [&](const auto& one) {
        return (one.first.find("_d16") != std::string::npos || one.first.starts_with("ds_write_b8_") ||
                one.first == "buffer_load_dwordx3" || one.first == "buffer_store_dwordx3") &&
               !ours.contains(one.first);
    });
    return counts;
}

class AmdDisassembler : public testing::TestWithParam<const char*> {};

TEST_P(AmdDisassembler, AgreesOnEveryTemplate) {
    const std::string arch = GetParam();
    const std::string why = test::why_no_compiler(arch);
    KILN_REQUIRE_OR_SKIP("hiprtc", why.empty(), why);
    ServiceOptions options = test::compile_for(arch);
    options.cache = {};
    options.cache.directory = test::shared_cache();
    Service service(options);
    int compared = 0;
    for (const Template& each : service.templates()) {
        const auto& backends = each.backends();
        const auto& archs = each.archs();
        if (std::ranges::find(backends, Backend::hip) == backends.end() ||
            (!archs.empty() && std::ranges::find(archs, arch) == archs.end()))
            continue;
        try {
            const Binary binary = service.compile(each.variant()).binary;
            const Resources found = resources_of(binary);
            const auto counts = objdump_counts(binary, found.instructions);
            KILN_REQUIRE_OR_SKIP("llvm-objdump", counts.has_value(), "llvm-objdump is not installed");
            EXPECT_EQ(found.instructions, *counts) << each.name();
            ++compared;
        } catch (const VariantError&) {
            // Its defaults need a larger device.
        } catch (const BuildError& error) {
            // That it compiles is held by tests/compile.
            std::cerr << each.name() << ": " << error.what() << "\n";
        }
    }
    EXPECT_GE(compared, 3);
}

// GFX9 with matrix cores, and GFX10.
INSTANTIATE_TEST_SUITE_P(, AmdDisassembler, testing::Values("gfx90a", "gfx1030"),
                         [](const auto& one) { return std::string(one.param); });

INSTANTIATE_TEST_SUITE_P(, CodeObjectOf, testing::ValuesIn(kHipArchs),
                         [](const auto& one) { return std::string(one.param); });

TEST(CodeObject, MatrixInstructions) {
    for (const char* arch : {"gfx908", "gfx90a"}) {
        const std::string why = test::why_no_compiler(arch);
        KILN_REQUIRE_OR_SKIP("hiprtc", why.empty(), why);
        const Resources found = resources_of(test::compile_text(arch, R"(
typedef float Accumulator __attribute__((ext_vector_type(16)));
typedef _Float16 Fragment __attribute__((ext_vector_type(4)));
extern "C" __global__ void __launch_bounds__(64) kernel(float* out, const Fragment* in) {
    Accumulator sum = {};
    for (int i = 0; i < 5; ++i) sum = __builtin_amdgcn_mfma_f32_32x32x8f16(in[2 * i], in[2 * i + 1], sum, 0, 0, 0);
    for (int i = 0; i < 16; ++i) out[64 * i + threadIdx.x] = sum[i];
}
)"));
        EXPECT_EQ(count(found, "v_mfma"), 5) << arch;
    }
}

// Formats with words of their own behind them: none may be taken for an instruction. As llvm-mc 19 encodes
// them.
TEST(AmdCode, LengthsOfInstructions) {
    constexpr unsigned kBarrier = 0xbf8a0000, kMfma = 0xd3cc8000;
    // v_add_f32 with a literal that looks like s_barrier; v_madak; s_add_u32 with a literal;
    // s_setreg_imm32_b32; s_barrier; v_mfma; s_nop, which is not counted.
    const auto gfx9 = bytes_of({0x020002ff, kBarrier, 0x30000501, kBarrier, 0x8000ff01, kBarrier, 0xba00f801,
                                kBarrier, kBarrier, kMfma, 0x04020500, 0xbf800000});
    EXPECT_EQ(count_amd(gfx9, "gfx90a"), (test::Counts{{"s_barrier", 1}, {"v_mfma", 1}, {"total", 6}}));
    EXPECT_EQ(count_amd(gfx9, "gfx906"), (test::Counts{{"s_barrier", 1}, {"total", 6}}))
        << "it has no matrix cores";
    // v_fma_f32 with a literal, v_fmaak_f32, s_setreg_imm32_b32, s_code_end.
    const auto gfx10 = bytes_of(
        {0xd54b0000, 0x03fe0501, kBarrier, 0x5a000501, kBarrier, 0xba80f801, kBarrier, 0xbf9f0000, kBarrier});
    EXPECT_EQ(count_amd(gfx10, "gfx1030"), (test::Counts{{"s_barrier", 1}, {"v_fma_f32", 1}, {"total", 4}}));
    // CDNA3: a product of FP8, and a sparse one.
    const auto cdna3 = bytes_of({0xd3f38000, 0x04020500, 0xd3e28000, 0x04020500});
    EXPECT_EQ(count_amd(cdna3, "gfx942"), (test::Counts{{"v_mfma", 1}, {"v_smfmac", 1}, {"total", 2}}));
}

TEST(AmdCode, WhatCanNotBeRead) {
    EXPECT_FALSE(count_amd(bytes_of({0xbf8a0000}), "gfx1100")) << "renumbered";
    EXPECT_FALSE(count_amd(bytes_of({0xbf8a0000}), ""));
    EXPECT_FALSE(count_amd(bytes_of({0xfc000000}), "gfx90a")) << "no such format";
    EXPECT_FALSE(count_amd(bytes_of({0xd3cc8000}), "gfx90a")) << "cut off";
    EXPECT_EQ(count_amd({}, "gfx90a"), test::Counts());
}

std::vector<std::byte> packed(std::initializer_list<unsigned> values) {
    std::vector<std::byte> bytes;
    for (const unsigned value : values) bytes.push_back(static_cast<std::byte>(value));
    return bytes;
}

TEST(Msgpack, ReadsAllFormsOfItsKinds) {
    // {"a": 5, "b": [1, u8 200, u16 0x1234, u32, u64], str8 "c": "x"}
    const auto bytes =
        packed({0x83, 0xa1, 'a',  5, 0xa1, 'b', 0x95, 1, 0xcc, 200, 0xcd, 0x12, 0x34, 0xce, 0,    0,
                1,    0,    0xcf, 0, 0,    0,   1,    0, 0,    0,   0,    0xd9, 1,    'c',  0xa1, 'x'});
    MsgpackCursor cursor(bytes);
    EXPECT_THAT(cursor.map(), Optional(3U));
    EXPECT_THAT(cursor.text(), Optional(std::string_view("a")));
    EXPECT_THAT(cursor.number(), Optional(5U));
    EXPECT_THAT(cursor.text(), Optional(std::string_view("b")));
    EXPECT_THAT(cursor.array(), Optional(5U));
    for (const std::uint64_t number : {1ull, 200ull, 0x1234ull, 0x100ull, 0x100000000ull})
        EXPECT_THAT(cursor.number(), Optional(number));
    EXPECT_THAT(cursor.text(), Optional(std::string_view("c")));
    EXPECT_TRUE(cursor.skip());
    EXPECT_FALSE(cursor.failed());
    EXPECT_FALSE(cursor.skip());
    EXPECT_TRUE(cursor.failed());

    MsgpackCursor all(bytes);
    EXPECT_TRUE(all.skip());
    EXPECT_FALSE(all.map());
}

TEST(Msgpack, SkipsEveryKind) {
    for (const auto& one :
         {packed({0xc0}), packed({0xc2}), packed({0xff}), packed({0xc4, 2, 1, 2}), packed({0xc7, 1, 9, 7}),
          packed({0xca, 1, 2, 3, 4}), packed({0xd0, 255}), packed({0xd3, 1, 2, 3, 4, 5, 6, 7, 8}),
          packed({0xd4, 1, 2}), packed({0xd8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
          packed({0xdc, 0, 2, 1, 0x91, 2}), packed({0xde, 0, 1, 1, 2}), packed({0x80}),
          packed({0xdb, 0, 0, 0, 1, 'x'})}) {
        MsgpackCursor cursor(one);
        EXPECT_TRUE(cursor.skip());
        EXPECT_FALSE(cursor.failed());
        EXPECT_FALSE(cursor.skip()) << "something was left";
        for (std::size_t length = 0; length < one.size(); ++length) {
            const std::vector<std::byte> cut(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(length));
            MsgpackCursor short_one(cut);
            EXPECT_FALSE(short_one.skip());
        }
    }
    EXPECT_FALSE(MsgpackCursor(packed({0xc1})).skip()) << "never used";
    EXPECT_FALSE(MsgpackCursor(std::vector<std::byte>(1000, std::byte{0x91})).skip()) << "too deep";
    EXPECT_FALSE(MsgpackCursor(packed({0xdd, 0xff, 0xff, 0xff, 0xff})).skip());
}

}  // namespace
}  // namespace kiln
