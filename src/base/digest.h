// SPDX-License-Identifier: Apache-2.0
//
// Digests: BLAKE2b-256 (libsodium) where identity and trust matter, XXH3-128 (xxHash) as a checksum
// against damage.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kiln {

/// Two hexadecimal digits for each byte.
std::string hex_text(std::span<const std::byte> bytes);

/// BLAKE2b-256 of the bytes, as 64 hexadecimal digits.
std::string digest_hex(std::string_view bytes);

using Checksum = std::array<std::byte, 16>;
/// XXH3-128 of the bytes, in its canonical (big-endian) form.
Checksum checksum(std::span<const std::byte> bytes);
/// As 32 hexadecimal digits.
std::string checksum_hex(std::string_view bytes);

/// The same of bytes that come in parts.
class ChecksumStream {
  public:
    ChecksumStream();
    ~ChecksumStream();
    ChecksumStream(const ChecksumStream&) = delete;
    ChecksumStream& operator=(const ChecksumStream&) = delete;

    void add(std::span<const std::byte> bytes);
    std::string hex() const;

  private:
    struct State;
    const std::unique_ptr<State> state_;
};

}  // namespace kiln
