// SPDX-License-Identifier: Apache-2.0
//
// Digests by libsodium and xxHash.
#include "base/digest.h"

#include <sodium.h>
#include <xxhash.h>

#include <new>

namespace kiln {

std::string digest_hex(std::string_view bytes) {
    std::array<unsigned char, 32> digest;
    crypto_generichash(digest.data(), digest.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                       bytes.size(), nullptr, 0);
    return hex_text(std::as_bytes(std::span(digest)));
}

namespace {

Checksum canonical(XXH128_hash_t hash) {
    XXH128_canonical_t form;
    XXH128_canonicalFromHash(&form, hash);
    Checksum result;
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = std::byte{form.digest[i]};
    return result;
}

}  // namespace

std::string hex_text(std::span<const std::byte> bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string hex;
    for (const std::byte byte : bytes) {
        hex += kDigits[std::to_integer<std::size_t>(byte >> 4)];
        hex += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
    }
    return hex;
}

Checksum checksum(std::span<const std::byte> bytes) {
    return canonical(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string checksum_hex(std::string_view bytes) {
    return hex_text(checksum(std::as_bytes(std::span(bytes))));
}

struct ChecksumStream::State {
    XXH3_state_t* xxh = XXH3_createState();
    ~State() { XXH3_freeState(xxh); }
};

ChecksumStream::ChecksumStream() : state_(std::make_unique<State>()) {
    if (state_->xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(state_->xxh);
}
ChecksumStream::~ChecksumStream() = default;

void ChecksumStream::add(std::span<const std::byte> bytes) {
    XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

std::string ChecksumStream::hex() const { return hex_text(canonical(XXH3_128bits_digest(state_->xxh))); }

}  // namespace kiln
