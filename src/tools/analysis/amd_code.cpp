// SPDX-License-Identifier: Apache-2.0
//
// Instructions have 4 to 20 bytes. The first word determines the format, and so the length and the position
// of the opcode. Sources: AMD's instruction set documents "Vega" 7nm, "CDNA2", "CDNA3" and "RDNA 2", chapter
// "Microcode Formats"; the opcodes were compared with llvm-mc 19 for gfx906, gfx908, gfx90a, gfx942 and
// gfx1030. Not here: GFX11 and later, whose opcodes were renumbered.
#include "analysis/amd_code.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/elf.h"

namespace kiln {
namespace {

enum class Format {
    unknown,
    vop1,
    vop2,
    vopc,
    vop3,
    vop3p,
    sop1,
    sop2,
    sopc,
    sopk,
    sopp,
    smem,
    ds,
    flat,
    mubuf,
    mimg,
    other_4,  // of 4 and of 8 bytes
    other_8
};

struct Instruction {
    Format format = Format::unknown;
    unsigned operation = 0;
    std::size_t bytes = 0;
};

// Operands that add a word: a literal; on the vector side also the words of SDWA and DPP.
constexpr unsigned kLiteral = 255, kSdwa = 249, kDpp = 250, kDpp8 = 233, kDpp8Fi = 234;

constexpr unsigned bits(std::uint32_t word, int low, int count) { return word >> low & ((1u << count) - 1); }

class Decoder {
  public:
    explicit Decoder(bool gfx10) : gfx10_(gfx10) {}

    /// `second`: the word after `first`, 0 at the end.
    Instruction decode(std::uint32_t first, std::uint32_t second) const {
        if (bits(first, 31, 1) == 0) return vector_short(first);
        if (bits(first, 30, 2) == 2) return scalar(first);
        switch (bits(first, 26, 6)) {
            case 0x30:
                return gfx10_ ? Instruction{} : Instruction{Format::smem, bits(first, 18, 8), 8};
            case 0x31:  // export
                return gfx10_ ? Instruction{} : Instruction{Format::other_8, 0, 8};
            case 0x32:  // interpolation
                return gfx10_ ? Instruction{Format::other_4, 0, 4} : Instruction{};
            case 0x33:
                return gfx10_ ? vector_long(Format::vop3p, bits(first, 16, 7), second) : Instruction{};
            case 0x34:
                if (gfx10_) return {};
                if (bits(first, 23, 9) == 0x1a7) return {Format::vop3p, bits(first, 16, 7), 8};
                return {Format::vop3, bits(first, 16, 10), 8};
            case 0x35:
                return gfx10_ ? vector_long(Format::vop3, bits(first, 16, 10), second)
                              : Instruction{Format::other_4, 0, 4};
            case 0x36:
                return {Format::ds, gfx10_ ? bits(first, 18, 8) : bits(first, 17, 8), 8};
            case 0x37:
                return {Format::flat, bits(first, 18, 7), 8};
            case 0x38:
                return {Format::mubuf, bits(first, 18, 7), 8};
            case 0x3a:
                return {Format::other_8, 0, 8};
            case 0x3c:  // images; on GFX10 up to three more words of addresses
                return {Format::mimg, 0, gfx10_ ? 8 + 4 * std::size_t{bits(first, 1, 2)} : 8};
            case 0x3d:
                return gfx10_ ? Instruction{Format::smem, bits(first, 18, 8), 8} : Instruction{};
            case 0x3e:
                return gfx10_ ? Instruction{Format::other_8, 0, 8} : Instruction{};
            default:
                return {};
        }
    }

  private:
    Instruction vector_short(std::uint32_t first) const {
        const unsigned source = bits(first, 0, 9);
        const bool more = source == kLiteral || source == kSdwa || source == kDpp ||
                          (gfx10_ && (source == kDpp8 || source == kDpp8Fi));
        const std::size_t bytes = more ? 8 : 4;
        const unsigned operation = bits(first, 25, 6);
        if (operation == 0x3f) return {Format::vop1, bits(first, 9, 8), bytes};
        if (operation == 0x3e) return {Format::vopc, bits(first, 17, 8), bytes};
        // v_madmk, v_madak, v_fmamk, v_fmaak in float and half always have a constant.
        constexpr std::array<unsigned, 4> kGfx9 = {23, 24, 36, 37}, kGfx10 = {44, 45, 55, 56};
        const auto& constants = gfx10_ ? kGfx10 : kGfx9;
        const bool constant = std::ranges::find(constants, operation) != constants.end();
        return {Format::vop2, operation, constant ? 8 : bytes};
    }

    static Instruction vector_long(Format format, unsigned operation, std::uint32_t second) {
        const bool literal = bits(second, 0, 9) == kLiteral || bits(second, 9, 9) == kLiteral ||
                             bits(second, 18, 9) == kLiteral;
        return {format, operation, literal ? std::size_t{12} : std::size_t{8}};
    }

    Instruction scalar(std::uint32_t first) const {
        const unsigned left = bits(first, 0, 8), right = bits(first, 8, 8);
        const std::size_t one = left == kLiteral ? 8 : 4;
        const std::size_t two = left == kLiteral || right == kLiteral ? 8 : 4;
        switch (bits(first, 23, 9)) {
            case 0x17d:
                return {Format::sop1, bits(first, 8, 8), one};
            case 0x17e:
                return {Format::sopc, bits(first, 16, 7), two};
            case 0x17f:
                return {Format::sopp, bits(first, 16, 7), 4};
            default:
                break;
        }
        if (bits(first, 28, 4) == 0xb) {
            const unsigned operation = bits(first, 23, 5);
            const unsigned set_register = gfx10_ ? 21 : 20;  // s_setreg_imm32_b32
            return {Format::sopk, operation, operation == set_register ? std::size_t{8} : std::size_t{4}};
        }
        return {Format::sop2, bits(first, 23, 7), two};
    }

    const bool gfx10_;
};

struct Named {
    Format format;
    int gfx9, gfx10;  // the opcode; -1: none
    std::string_view name;
};

constexpr Named kNames[] = {
    {Format::vop3, 0x1cb, 0x14b, "v_fma_f32"},
    {Format::vop2, 0x3b, 0x2b, "v_fmac_f32"},
    {Format::vop3, 0x13b, 0x12b, "v_fmac_f32"},
    {Format::vop2, 0x16, -1, "v_mac_f32"},
    {Format::vop3p, 0x0e, 0x0e, "v_pk_fma_f16"},
    {Format::vop3p, 0x30, -1, "v_pk_fma_f32"},
    {Format::vop3p, 0x20, 0x20, "v_fma_mix_f32"},
    {Format::vop3p, 0x23, 0x13, "v_dot2_f32_f16"},
    {Format::sopp, 0x0a, 0x0a, "s_barrier"},
    {Format::ds, 0x36, 0x36, "ds_read_b32"},
    {Format::ds, 0x76, 0x76, "ds_read_b64"},
    {Format::ds, 0xfe, 0xfe, "ds_read_b96"},
    {Format::ds, 0xff, 0xff, "ds_read_b128"},
    {Format::ds, 0x37, 0x37, "ds_read2_b32"},
    {Format::ds, 0x77, 0x77, "ds_read2_b64"},
    {Format::ds, 0x38, 0x38, "ds_read2st64_b32"},
    {Format::ds, 0x78, 0x78, "ds_read2st64_b64"},
    {Format::ds, 0x39, 0x39, "ds_read_i8"},
    {Format::ds, 0x3a, 0x3a, "ds_read_u8"},
    {Format::ds, 0x3b, 0x3b, "ds_read_i16"},
    {Format::ds, 0x3c, 0x3c, "ds_read_u16"},
    {Format::ds, 0x5a, 0xa6, "ds_read_u16_d16"},
    {Format::ds, 0x5b, 0xa7, "ds_read_u16_d16_hi"},
    {Format::ds, 0x0d, 0x0d, "ds_write_b32"},
    {Format::ds, 0x4d, 0x4d, "ds_write_b64"},
    {Format::ds, 0xde, 0xde, "ds_write_b96"},
    {Format::ds, 0xdf, 0xdf, "ds_write_b128"},
    {Format::ds, 0x0e, 0x0e, "ds_write2_b32"},
    {Format::ds, 0x4e, 0x4e, "ds_write2_b64"},
    {Format::ds, 0x0f, 0x0f, "ds_write2st64_b32"},
    {Format::ds, 0x4f, 0x4f, "ds_write2st64_b64"},
    {Format::ds, 0x1e, 0x1e, "ds_write_b8"},
    {Format::ds, 0x1f, 0x1f, "ds_write_b16"},
    {Format::mubuf, 0x14, 0x0c, "buffer_load_dword"},
    {Format::mubuf, 0x15, 0x0d, "buffer_load_dwordx2"},
    {Format::mubuf, 0x17, 0x0e, "buffer_load_dwordx4"},
    {Format::mubuf, 0x1c, 0x1c, "buffer_store_dword"},
    {Format::mubuf, 0x1d, 0x1d, "buffer_store_dwordx2"},
    {Format::mubuf, 0x1f, 0x1e, "buffer_store_dwordx4"},
};

constexpr std::string_view kSegments[] = {"flat", "scratch", "global"};

struct FlatName {
    unsigned gfx9, gfx10;
    std::string_view name;
};
constexpr FlatName kFlatNames[] = {
    {0x14, 0x0c, "_load_dword"},    {0x15, 0x0d, "_load_dwordx2"},  {0x16, 0x0f, "_load_dwordx3"},
    {0x17, 0x0e, "_load_dwordx4"},  {0x1c, 0x1c, "_store_dword"},   {0x1d, 0x1d, "_store_dwordx2"},
    {0x1e, 0x1f, "_store_dwordx3"}, {0x1f, 0x1e, "_store_dwordx4"},
};

enum class MatrixCores { none, gfx908, gfx90a, gfx940 };

// The opcodes of VOP3P are v_mfma_*, v_accvgpr_*, v_smfmac_*.
std::string_view matrix_name(MatrixCores cores, unsigned operation) {
    if (cores == MatrixCores::none) return {};
    if (operation == 0x58) return "v_accvgpr_read";
    if (operation == 0x59) return "v_accvgpr_write";
    if (cores == MatrixCores::gfx940) {
        const bool sparse =
            (operation >= 0x62 && operation <= 0x6c && operation % 2 == 0) || operation >= 0x78;
        if (sparse) return "v_smfmac";
        return operation == 0x3e || operation == 0x3f || operation >= 0x40 ? "v_mfma" : std::string_view();
    }
    return operation >= 0x40 ? "v_mfma" : std::string_view();
}

std::string name_of(const Instruction& instruction, std::uint32_t first, bool gfx10, MatrixCores cores) {
    if (instruction.format == Format::flat) {
        const unsigned segment = bits(first, 14, 2);
        for (const FlatName& one : kFlatNames)
            if (instruction.operation == (gfx10 ? one.gfx10 : one.gfx9) && segment < std::size(kSegments))
                return std::string(kSegments[segment]) + std::string(one.name);
        return {};
    }
    if (instruction.format == Format::vop3p)
        if (const auto name = matrix_name(cores, instruction.operation); !name.empty())
            return std::string(name);
    for (const Named& one : kNames)
        if (one.format == instruction.format &&
            static_cast<int>(instruction.operation) == (gfx10 ? one.gfx10 : one.gfx9))
            return std::string(one.name);
    return {};
}

}  // namespace

std::optional<std::map<std::string, int>> count_amd(std::span<const std::byte> code, std::string_view arch) {
    // gfx90a and gfx1030 are GFX9 and GFX10: the last two characters are the minor version and the stepping.
    const bool gfx9 = arch.size() == 6 && arch.starts_with("gfx9");
    const bool gfx10 = arch.size() == 7 && arch.starts_with("gfx10");
    if (!gfx9 && !gfx10) return std::nullopt;
    const MatrixCores cores = arch == "gfx908"            ? MatrixCores::gfx908
                              : arch == "gfx90a"          ? MatrixCores::gfx90a
                              : arch.starts_with("gfx94") ? MatrixCores::gfx940
                                                          : MatrixCores::none;
    constexpr unsigned kNop = 0, kCodeEnd = 0x1f;
    const Decoder decoder(gfx10);
    std::map<std::string, int> counts;
    int total = 0;
    for (std::size_t at = 0; at + 4 <= code.size();) {
        const auto first = read_at<std::uint32_t>(code, at);
        const Instruction instruction = decoder.decode(first, read_at<std::uint32_t>(code, at + 4));
        if (instruction.format == Format::unknown || instruction.bytes > code.size() - at)
            return std::nullopt;
        at += instruction.bytes;
        if (instruction.format == Format::sopp &&
            (instruction.operation == kNop || (gfx10 && instruction.operation == kCodeEnd)))
            continue;
        ++total;
        if (const std::string name = name_of(instruction, first, gfx10, cores); !name.empty()) ++counts[name];
    }
    if (total > 0) counts["total"] = total;
    return counts;
}

}  // namespace kiln
