// SPDX-License-Identifier: Apache-2.0
//
// How the disk tier opens its files: one name at a time from an open directory, never through a link below
// the cache directory, and only trusted files. The content of the directory never causes an exception.
#pragma once

#include <kiln/build.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "cache/trust.h"

namespace kiln {

/// Larger entries are neither stored nor read.
constexpr std::uint64_t kMaxEntryBytes = std::uint64_t{1} << 30;

/// A descriptor, or why there is none.
struct Opened {
    FileDescriptor descriptor;
    struct stat status = {};
    std::string refusal;  ///< "it is a symbolic link"; empty: the name does not exist
    int error = 0;        ///< the errno of a failure; 0 when it was rejected for its type or owner

    explicit operator bool() const { return static_cast<bool>(descriptor); }
    int fd() const { return descriptor.value(); }
};

/// The cache directory itself, which may be reached through links.
Opened open_root(const std::filesystem::path& path, Trust trust);
/// The same, and creates missing directories of the path: mode 0700, or 2770 when shared with the group.
Opened make_root(const std::filesystem::path& path, Trust trust);
Opened open_directory(int parent, const std::string& name, Trust trust);
Opened make_directory(int parent, const std::string& name, Trust trust);
/// A regular file of at most that size, for reading.
Opened open_file(int directory, const std::string& name, Trust trust, std::uint64_t max_bytes);

/// Throws std::system_error when descriptors or memory run out, which is not a property of the file.
Opened unless_short(Opened opened);

/// The bytes of an open file, from its start; fewer than its status says when it has shrunk. nullopt with
/// errno set when they can't be read.
std::optional<Bytes> read_all(const Opened& file);

/// All names but "." and "..". Throws std::system_error when they can't be read.
std::vector<std::string> names_in(int directory);

/// True when the error means that a file no longer exists, locally or on a file server.
bool has_vanished(int error);

}  // namespace kiln
