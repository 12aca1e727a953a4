// SPDX-License-Identifier: Apache-2.0
//
// An instruction has 16 bytes. Bits 0 to 8 are the operation, bits 9 to 11 the kinds of its operands
// (registers, a constant, an immediate, a uniform register), so that the operation alone names it: FFMA is
// 0x023 in all of 0x223, 0x423, 0x623, 0x823, 0xa23, 0xc23. The vendor does not document this; the table was
// taken from what nvdisasm 13.5 prints for kernels that hold each of these instructions, and
// tests/analysis compares the counts with nvdisasm wherever that is installed.
#include "analysis/sass.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "analysis/elf_view.h"

namespace kiln {
namespace {

constexpr std::size_t kInstructionBytes = 16;
constexpr unsigned kOperationMask = 0x1ff;
constexpr unsigned kNop = 0x118;
constexpr unsigned kUtcMma = 0x1ea;
constexpr unsigned kHfma2Mma = 0x035;  // IADD from compute capability 10.0 on

struct Operation {
    unsigned code;
    std::string_view name;
    bool has_width = false;  ///< bits 73 to 75 say how much a lane moves
};

constexpr Operation kOperations[] = {
    // arithmetic
    {0x023, "FFMA"},
    {0x049, "FFMA2"},
    {0x02b, "DFMA"},
    {0x031, "HFMA2"},
    {0x108, "MUFU"},
    // matrix cores
    {0x037, "IMMA"},
    {0x03c, "HMMA"},
    {0x03f, "DMMA"},
    {0x07a, "QMMA"},
    {0x1f0, "HGMMA"},
    {0x1f1, "IGMMA"},
    {0x1f2, "BGMMA"},
    {0x1f3, "QGMMA"},
    // shared memory
    {0x184, "LDS", true},
    {0x188, "STS", true},
    {0x03b, "LDSM"},
    {0x044, "STSM"},
    {0x18c, "ATOMS"},
    {0x1a7, "SYNCS"},
    {0x1b2, "SYNCS"},
    // global memory; the last two move 32 bytes per lane
    {0x181, "LDG", true},
    {0x186, "STG", true},
    {0x1ae, "LDGSTS"},
    {0x1b4, "UTMALDG"},
    {0x1b5, "UTMASTG"},
    {0x1ba, "UBLKCP"},
    {0x17e, "LDG.256"},
    {0x17f, "STG.256"},
    // local memory: spills, and arrays that are not in registers
    {0x183, "LDL"},
    {0x187, "STL"},
    // among threads
    {0x11d, "BAR"},
    {0x189, "SHFL"},
};

// A lane's access in bits 73 to 75.
constexpr std::string_view kWidths[] = {".U8", ".S8", ".U16", ".S16", "", ".64", ".128", ".U.128"};

// The matrix instruction of compute capability 10.x is told apart by bits 72 and 73.
constexpr std::string_view kUtcMmaKinds[] = {"UTCHMMA", "UTCIMMA", "UTCMMA", "UTCQMMA"};

}  // namespace

std::map<std::string, int> count_sass(std::span<const std::byte> code, int compute_capability) {
    std::map<std::string, int> counts;
    int total = 0;
    for (std::size_t at = 0; at + kInstructionBytes <= code.size(); at += kInstructionBytes) {
        const auto low = read_at<std::uint64_t>(code, at);
        const auto high = read_at<std::uint64_t>(code, at + 8);
        const auto operation = static_cast<unsigned>(low & kOperationMask);
        if (operation == kNop) continue;
        ++total;
        if (operation == kHfma2Mma && compute_capability < 100) {
            ++counts["HFMA2"];
        } else if (operation == kUtcMma && compute_capability >= 100) {
            ++counts[std::string(kUtcMmaKinds[high >> 8 & 3])];
        } else if (const auto* const found = std::ranges::find(kOperations, operation, &Operation::code);
                   found != std::end(kOperations)) {
            std::string name(found->name);
            if (found->has_width) name += kWidths[high >> 9 & 7];
            ++counts[name];
        }
    }
    if (total > 0) counts["total"] = total;
    return counts;
}

}  // namespace kiln
