// SPDX-License-Identifier: Apache-2.0
//
// Digests between their two forms.
#include "cache/pack_format.h"

namespace kiln::pack {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

std::optional<Digest> parse_digest(std::string_view hex) {
    Digest digest;
    if (hex.size() != 2 * digest.size()) return std::nullopt;
    for (std::size_t i = 0; i < digest.size(); ++i) {
        const auto high = kDigits.find(hex[2 * i]);
        const auto low = kDigits.find(hex[2 * i + 1]);
        if (high == kDigits.npos || low == kDigits.npos) return std::nullopt;
        digest[i] = static_cast<std::byte>(high << 4 | low);
    }
    return digest;
}

std::string digest_text(const Digest& digest) {
    std::string hex;
    for (const std::byte byte : digest) {
        hex += kDigits[std::to_integer<std::size_t>(byte >> 4)];
        hex += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
    }
    return hex;
}

}  // namespace kiln::pack
