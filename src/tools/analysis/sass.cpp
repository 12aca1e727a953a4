// SPDX-License-Identifier: Apache-2.0
//
// An instruction has 16 bytes. Bits 0 to 8 are the opcode, bits 9 to 11 the kinds of its operands (registers,
// a constant, an immediate, a uniform register), so the opcode alone identifies it: FFMA is 0x023 in all of
// 0x223, 0x423, 0x623, 0x823, 0xa23, 0xc23. The vendor does not document this; the table was derived from
// nvdisasm 13.5's output for kernels with each of these instructions, and tests/analysis compares the counts
// with nvdisasm if it is installed. The bytes per lane were derived from Nsight Compute's source page for 92
// kernels, and from kernels of one instruction each.
#include "analysis/sass.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/elf.h"

namespace kiln {
namespace {

constexpr std::size_t kInstructionBytes = 16;
constexpr unsigned kOperationMask = 0x1ff;
constexpr unsigned kNop = 0x118;
constexpr unsigned kUtcMma = 0x1ea;
constexpr unsigned kHfma2Mma = 0x035;  // IADD from compute capability 10.0 on

/// How an instruction encodes the bytes per lane.
enum class Width {
    none,      ///< not at all, or no access to shared or global memory
    named,     ///< bits 73 to 75, and part of the name
    unnamed,   ///< the same, but not part of the name
    matrices,  ///< bits 72 and 73: 1, 2 or 4 matrices of 4 bytes per lane
    atomic,    ///< bits 73 to 75 are the type
    bytes_32,
};

struct Operation {
    unsigned code;
    std::string_view name;
    Width width = Width::none;
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
    {0x184, "LDS", Width::named},
    {0x188, "STS", Width::named},
    {0x03b, "LDSM", Width::matrices},
    {0x044, "STSM", Width::matrices},
    {0x18c, "ATOMS", Width::atomic},
    {0x18d, "ATOMS", Width::atomic},  // compare and swap
    {0x1a7, "SYNCS"},
    {0x1b2, "SYNCS"},
    // global memory; the last two move 32 bytes per lane
    {0x181, "LDG", Width::named},
    {0x186, "STG", Width::named},
    {0x1ae, "LDGSTS", Width::unnamed},
    {0x1b4, "UTMALDG"},
    {0x1b5, "UTMASTG"},
    {0x1ba, "UBLKCP"},
    {0x17e, "LDG.256", Width::bytes_32},
    {0x17f, "STG.256", Width::bytes_32},
    // local memory: spills, and arrays that are not in registers
    {0x183, "LDL"},
    {0x187, "STL"},
    // between threads
    {0x11d, "BAR"},
    {0x189, "SHFL"},
};

// A lane's access in bits 73 to 75.
constexpr std::string_view kWidthNames[] = {".U8", ".S8", ".U16", ".S16", "", ".64", ".128", ".U.128"};
constexpr int kBytes[] = {1, 1, 2, 2, 4, 8, 16, 16};
// Of an atomic, the type: U32, S32, U64, F32, a pair of F16, S64, F64, a pair of BF16.
constexpr int kAtomicBytes[] = {4, 4, 8, 4, 4, 8, 8, 4};

// Bits 72 and 73 distinguish the matrix instructions of compute capability 10.x.
constexpr std::string_view kUtcMmaKinds[] = {"UTCHMMA", "UTCIMMA", "UTCMMA", "UTCQMMA"};

/// One instruction: bits 0 to 63 and 64 to 127.
struct Instruction {
    std::uint64_t low = 0, high = 0;

    unsigned operation() const { return static_cast<unsigned>(low & kOperationMask); }
    std::size_t width() const { return high >> 9 & 7; }
    std::size_t matrices() const { return high >> 8 & 3; }
};

const Operation* find_operation(const Instruction& instruction) {
    const auto* const found = std::ranges::find(kOperations, instruction.operation(), &Operation::code);
    return found == std::end(kOperations) ? nullptr : found;
}

std::string name_of(const Operation& operation, const Instruction& instruction) {
    std::string name(operation.name);
    if (operation.width == Width::named) name += kWidthNames[instruction.width()];
    return name;
}

int bytes_of(const Operation& operation, const Instruction& instruction) {
    switch (operation.width) {
        case Width::none:
            return 0;
        case Width::named:
        case Width::unnamed:
            return kBytes[instruction.width()];
        case Width::matrices:
            return 4 << instruction.matrices();
        case Width::atomic:
            return kAtomicBytes[instruction.width()];
        case Width::bytes_32:
            return 32;
    }
    return 0;
}

/// Calls visit(offset, instruction) for each complete instruction but NOP.
template <class Visit>
void for_each(std::span<const std::byte> code, Visit visit) {
    for (std::size_t at = 0; at + kInstructionBytes <= code.size(); at += kInstructionBytes) {
        const Instruction instruction{read_at<std::uint64_t>(code, at), read_at<std::uint64_t>(code, at + 8)};
        if (instruction.operation() != kNop) visit(at, instruction);
    }
}

}  // namespace

std::map<std::string, int> count_sass(std::span<const std::byte> code, int compute_capability) {
    std::map<std::string, int> counts;
    int total = 0;
    for_each(code, [&](std::size_t, const Instruction& instruction) {
        ++total;
        if (instruction.operation() == kHfma2Mma && compute_capability < 100) {
            ++counts["HFMA2"];
        } else if (instruction.operation() == kUtcMma && compute_capability >= 100) {
            ++counts[std::string(kUtcMmaKinds[instruction.high >> 8 & 3])];
        } else if (const Operation* const found = find_operation(instruction)) {
            ++counts[name_of(*found, instruction)];
        }
    });
    if (total > 0) counts["total"] = total;
    return counts;
}

std::vector<SassAccess> sass_accesses(std::span<const std::byte> code) {
    std::vector<SassAccess> accesses;
    for_each(code, [&](std::size_t offset, const Instruction& instruction) {
        const Operation* const found = find_operation(instruction);
        if (found != nullptr && found->width != Width::none)
            accesses.push_back({offset, name_of(*found, instruction), bytes_of(*found, instruction)});
    });
    return accesses;
}

}  // namespace kiln
