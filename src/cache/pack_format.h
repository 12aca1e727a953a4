// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a seed pack: head, rows sorted by digest, the XXH3-128 of both, entries at multiples of 64
// bytes. Integers are little-endian.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/digest.h"

namespace kiln::pack {

static_assert(std::endian::native == std::endian::little, "the pack format is written in native order");

inline constexpr std::array<char, 8> kMagic = {'K', 'I', 'L', 'N', 'P', 'C', 'K', '\n'};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint64_t kAlignment = 64;

using Digest = std::array<std::byte, 32>;

struct Head {
    std::array<char, 8> magic = kMagic;
    std::uint32_t version = kVersion;
    std::uint32_t row_bytes;
    std::uint64_t count;
    std::uint64_t total_bytes;
};

struct Row {
    Digest digest;
    std::uint64_t offset;
    std::uint64_t length;
};

static_assert(sizeof(Head) == 32 && sizeof(Row) == 48);

constexpr std::uint64_t aligned(std::uint64_t offset) {
    return (offset + kAlignment - 1) / kAlignment * kAlignment;
}
/// Of head, rows and their checksum.
constexpr std::uint64_t index_bytes(std::uint64_t count) {
    return sizeof(Head) + count * sizeof(Row) + sizeof(Checksum);
}

/// nullopt for anything but 64 lower-case hexadecimal digits.
std::optional<Digest> parse_digest(std::string_view hex);
std::string digest_text(const Digest& digest);

}  // namespace kiln::pack
