// SPDX-License-Identifier: Apache-2.0
//
// The shared state of the processes on a cache directory: the bytes of its entries, and the counters. One
// small text file; cache/README.md describes it.
#pragma once

#include <kiln/trace.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cache/trust.h"

namespace kiln {

struct DiskState {
    std::uint64_t entry_bytes = 0;
    /// When entry_bytes was last counted, in seconds since 1970; 0: it is not reliable.
    std::int64_t counted_at = 0;
    Counters counters;
};

std::string state_text(const DiskState& state);
/// Does not throw for any text. From a damaged one it reads as many counters as possible and sets counted_at
/// to 0; `reason` says what is wrong.
DiskState parse_state(std::string_view text, std::string& reason);

constexpr const char* kStateName = "state";
/// What is remembered of compilers and of include directories (compile/identity_memory.h).
constexpr const char* kIdentitiesName = "identities";
constexpr const char* kIncludesName = "includes";
constexpr std::uint64_t kMaxMemoryBytes = 4 << 20;
/// version: the open directory v1. A file that is missing or can't be read is an empty state. Throws
/// std::system_error where descriptors or memory ran out.
DiskState read_state(int version, Trust trust, std::string& reason);
/// Written to a temporary file and renamed. Throws std::system_error, and keeps the old file, when that
/// fails.
void write_state(int version, const DiskState& state, Trust trust);
/// Stores the bytes of the entries; nullopt: not known. Does not throw: a state that can't be written is too
/// large, and the next store counts again.
void note_entry_bytes(int version, std::optional<std::uint64_t> bytes, Trust trust);

}  // namespace kiln
