// SPDX-License-Identifier: Apache-2.0
//
// The remote's value of an entry's key: the encoded entry; or, with a signature key, "KILNSIG1", the
// HMAC-SHA-256 of digest and entry, and the entry.
#pragma once

#include <kiln/build.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace kiln {

/// The key as it is in its file; empty: none.
using SignatureKey = std::vector<std::byte>;

/// What precedes the entry: nothing without a key.
std::vector<std::byte> signature_head(const SignatureKey& key, const std::string& digest,
                                      std::span<const std::byte> entry);

/// The entry in a value; empty, with a reason, when the signature is missing or wrong. Without a key, the
/// signature can't be checked and is ignored, so that readers can be given the key one after the other.
Bytes signed_entry(const SignatureKey& key, const std::string& digest, const Bytes& value,
                   std::string& reason);

}  // namespace kiln
