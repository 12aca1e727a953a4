// SPDX-License-Identifier: Apache-2.0
//
// The format of a cache entry: one self-describing file that is whole or worthless. cache/README.md
// describes the bytes. Encoding and decoding are pure; no file is touched here.
#pragma once

#include <kiln/build.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kiln {

struct Entry {
    std::string key_text;  ///< the ingredients, as in BuildKey::text
    Binary binary;
};

std::vector<std::byte> encode_entry(const BuildKey& key, const Binary& binary);

/// nullopt for anything that is not a whole, undamaged entry of this format; `reason` then says what
/// is wrong. Never throws for what the bytes are.
std::optional<Entry> decode_entry(std::span<const std::byte> bytes, std::string& reason);

}  // namespace kiln
