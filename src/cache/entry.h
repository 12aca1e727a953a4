// SPDX-License-Identifier: Apache-2.0
//
// The format of a cache entry: one self-describing file that is complete or invalid. cache/README.md
// describes the bytes. Encoding and decoding are pure functions; they access no files.
#pragma once

#include <kiln/build.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kiln {

struct Entry {
    std::string key_text;  ///< the ingredients, as in BuildKey::text
    Binary binary;
};

Bytes encode_entry(const BuildKey& key, const Binary& binary);

/// nullopt for anything but a complete, undamaged entry of this format; `reason` then says what is wrong.
/// Does not throw for any bytes. The binary is a part of `bytes`, not a copy.
std::optional<Entry> decode_entry(const Bytes& bytes, std::string& reason);

/// The same, and the key text must have this digest (64 hexadecimal digits).
std::optional<Entry> decode_entry_of(const std::string& digest, const Bytes& bytes, std::string& reason);

/// The number of bytes at the start of an entry that give the positions of its sections.
constexpr std::size_t kEntryHeadBytes = 128;
struct KeyPlace {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
};
/// The position of the key text in an entry of this size with these first bytes; nullopt when it is not an
/// entry. Checks the table, not the checksum.
std::optional<KeyPlace> find_key_text(std::span<const std::byte> start, std::uint64_t file_bytes);

}  // namespace kiln
