// SPDX-License-Identifier: Apache-2.0
//
// All entries of a cache directory, by name, size and time of use; and which of them are pruned.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/trust.h"

namespace kiln {

/// 64 hexadecimal digits in lower case.
bool is_digest(std::string_view text);
/// "ab", the directory of the digest ab...
std::string shard_name(std::string_view digest);
/// "<digest>.kiln"
std::string file_name(std::string_view digest);
/// The digest in a file's name, if it is the name of an entry.
std::optional<std::string> digest_in(std::string_view file_name);
bool is_shard_name(std::string_view name);

struct DiskFile {
    std::string digest;
    std::uint64_t bytes = 0;
    std::int64_t used_ns = 0;  ///< since 1970
};

/// Regular files with the name of an entry, in the right place. version: the open directory v1. Throws
/// std::system_error when it can't be listed; skips directories that are not trusted.
std::vector<DiskFile> scan_entries(int version, Trust trust);
std::uint64_t sum_bytes(const std::vector<DiskFile>& files);

struct Evicted {
    std::uint64_t entries = 0;
    std::uint64_t bytes = 0;
    std::string failure;  ///< why one could not be removed; empty when all could
};
/// Removes the least recently used until the rest has at most target_bytes; all when there is no target. A
/// time in the future (a clock has jumped) is set to now.
Evicted evict(int version, std::vector<DiskFile> files, std::optional<std::uint64_t> target_bytes,
              Trust trust);

}  // namespace kiln
