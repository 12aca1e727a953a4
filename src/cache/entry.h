// SPDX-License-Identifier: Apache-2.0
//
// The format of a cache entry: one self-describing file that is complete or invalid. cache/README.md
// describes the bytes. Encoding and decoding are pure; no file is touched here.
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

/// nullopt for anything that is not a whole, undamaged entry of this format; `reason` then says what
/// is wrong. Never throws for what the bytes are. The binary is a part of `bytes`, not a copy.
std::optional<Entry> decode_entry(const Bytes& bytes, std::string& reason);

/// The same, held to a digest (64 hexadecimal digits) that the key text must have.
std::optional<Entry> decode_entry_of(const std::string& digest, const Bytes& bytes, std::string& reason);

/// So many bytes from its start tell where the parts of an entry lie.
constexpr std::size_t kEntryHeadBytes = 128;
struct KeyPlace {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
};
/// Where the key text lies in an entry of that size, which starts so; nullopt when it is no entry. Checks the
/// table, not the checksum.
std::optional<KeyPlace> find_key_text(std::span<const std::byte> start, std::uint64_t file_bytes);

}  // namespace kiln
