// SPDX-License-Identifier: Apache-2.0
//
// Digests by libsodium and xxHash.
#include "base/digest.h"

#include <sodium.h>
#include <xxhash.h>

namespace kiln {

std::string digest_hex(std::string_view bytes) {
    std::array<unsigned char, 32> digest;
    crypto_generichash(digest.data(), digest.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                       bytes.size(), nullptr, 0);
    std::array<char, 65> hex;
    sodium_bin2hex(hex.data(), hex.size(), digest.data(), digest.size());
    return std::string(hex.data(), 64);
}

Checksum checksum(std::span<const std::byte> bytes) {
    const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    Checksum result;
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = std::byte{canonical.digest[i]};
    return result;
}

}  // namespace kiln
