// SPDX-License-Identifier: Apache-2.0
//
// What the processes on a cache directory know together: how many bytes its entries have, and the counters.
// One small text file; cache/README.md describes it.
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
    /// When entry_bytes was last counted, in seconds since 1970; 0: it is not to be relied on.
    std::int64_t counted_at = 0;
    Counters counters;
};

std::string state_text(const DiskState& state);
/// Never throws for what the text is. Of a damaged one, the counters that can be read, and counted_at is 0;
/// `reason` says what is wrong.
DiskState parse_state(std::string_view text, std::string& reason);

constexpr const char* kStateName = "state";
/// What is remembered of compilers and of include directories (compile/identity_memory.h).
constexpr const char* kIdentitiesName = "identities";
constexpr const char* kIncludesName = "includes";
constexpr std::uint64_t kMaxMemoryBytes = 4 << 20;
/// version: the open directory v1. A file that is missing or can't be read is an empty state. Throws
/// std::system_error where descriptors or memory ran out.
DiskState read_state(int version, Trust trust, std::string& reason);
/// Written to a temporary file and renamed. Throws std::system_error, and leaves the old one, where that fails.
void write_state(int version, const DiskState& state, Trust trust);
/// Notes how many bytes the entries have; nullopt: that it is not known. Throws nothing: a state that can't
/// be written says too much, and who stores next counts.
void note_entry_bytes(int version, std::optional<std::uint64_t> bytes, Trust trust);

}  // namespace kiln
