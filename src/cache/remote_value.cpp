// SPDX-License-Identifier: Apache-2.0
//
// HMAC-SHA-256 by libsodium. The digest is signed with the entry, so that no entry can stand in for another.
#include "cache/remote_value.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace kiln {
namespace {

constexpr std::string_view kMagic = "KILNSIG1";
constexpr std::size_t kHeadBytes = kMagic.size() + crypto_auth_hmacsha256_BYTES;
using Signature = std::array<unsigned char, crypto_auth_hmacsha256_BYTES>;

const unsigned char* raw(const void* bytes) { return static_cast<const unsigned char*>(bytes); }

Signature sign(const SignatureKey& key, const std::string& digest, std::span<const std::byte> entry) {
    crypto_auth_hmacsha256_state state;
    Signature signature;
    crypto_auth_hmacsha256_init(&state, raw(key.data()), key.size());
    crypto_auth_hmacsha256_update(&state, raw(digest.data()), digest.size());
    crypto_auth_hmacsha256_update(&state, raw(entry.data()), entry.size());
    crypto_auth_hmacsha256_final(&state, signature.data());
    sodium_memzero(&state, sizeof(state));
    return signature;
}

}  // namespace

std::vector<std::byte> signature_head(const SignatureKey& key, const std::string& digest,
                                      std::span<const std::byte> entry) {
    if (key.empty()) return {};
    const auto magic = std::as_bytes(std::span(kMagic));
    const auto signature = sign(key, digest, entry);
    std::vector<std::byte> head(magic.begin(), magic.end());
    const auto bytes = std::as_bytes(std::span(signature));
    head.insert(head.end(), bytes.begin(), bytes.end());
    return head;
}

Bytes signed_entry(const SignatureKey& key, const std::string& digest, const Bytes& value,
                   std::string& reason) {
    const auto magic = std::as_bytes(std::span(kMagic));
    const bool has_signature =
        value.size() >= kHeadBytes && std::equal(magic.begin(), magic.end(), value.begin());
    if (!has_signature) {
        if (key.empty()) return value;
        reason = "it is not signed";
        return {};
    }
    Bytes entry = value.part(kHeadBytes, value.size() - kHeadBytes);
    if (key.empty()) return entry;
    const auto wanted = sign(key, digest, {entry.data(), entry.size()});
    if (sodium_memcmp(wanted.data(), value.data() + kMagic.size(), wanted.size()) == 0) return entry;
    reason = "its signature is wrong";
    return {};
}

}  // namespace kiln
