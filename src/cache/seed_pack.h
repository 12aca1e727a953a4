// SPDX-License-Identifier: Apache-2.0
//
// SeedPack: many entries in one read-only file, mapped, with an index sorted by digest. cache/README.md
// describes the bytes.
#pragma once

#include <kiln/build.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/key_text.h"
#include "cache/lookup.h"
#include "cache/trust.h"

namespace kiln {

/// The index of a pack, checked: pure, so that it can be fuzzed.
class PackIndex {
  public:
    struct Place {
        std::uint64_t offset = 0;
        std::uint64_t length = 0;
    };

    /// nullopt for anything but a complete pack with an undamaged index; `reason` says what is wrong. Checks
    /// head and index, not the entries: each has a checksum of its own, checked when it is used.
    static std::optional<PackIndex> parse(std::span<const std::byte> file, std::string& reason);

    std::size_t size() const { return count_; }
    std::string digest(std::size_t index) const;
    Place place(std::size_t index) const;
    std::optional<Place> find(const std::string& digest) const;

  private:
    std::span<const std::byte> rows_;
    std::size_t count_ = 0;
};

/// Thread-safe. The mapping lives as long as any Bytes of it. Packs are replaced by renaming, which does not
/// affect mappings of the old file. A file that was changed in place is not read any further.
class SeedPack {
  public:
    /// Does not throw: problem() reports a file that can't be used, and look-ups find nothing.
    SeedPack(std::filesystem::path file, Trust trust);

    const std::filesystem::path& file() const { return file_; }
    const std::string& problem() const { return problem_; }
    Lookup find(const BuildKey& key) const;
    /// The entry of this open key (make_open_key), of any compiler, that is first in the file.
    Lookup find_of_any_compiler(const BuildKey& open_key, Includes includes) const;

    std::size_t size() const { return index_ ? index_->size() : 0; }
    std::string digest(std::size_t index) const { return index_->digest(index); }
    /// The encoded entry, not checked; empty when the file was changed in place.
    Bytes entry(std::size_t index) const;
    /// The text of its key, which lives as long as the pack; nullopt for an entry that has none.
    std::optional<std::string_view> key_text(std::size_t index) const;

  private:
    void open(Trust trust);
    bool changed_in_place() const;
    std::string changed_message() const;
    static std::string_view key_text(const Bytes& entry);

    std::filesystem::path file_;
    std::string problem_;
    struct stat status_ {};  ///< of the mapped file
    Bytes mapping_;
    std::optional<PackIndex> index_;
};

/// Writes a pack (to a temporary file, synced, renamed; mode 0644) with entries in the order of digests, each once.
/// entry gives the bytes of each digest, one after the other, so that they need not all be in memory at once; entries
/// for which it is empty are omitted. Throws std::system_error, and what `entry` throws; then no file remains.
struct PackWritten {
    std::uint64_t entries = 0;
    std::uint64_t bytes = 0;  ///< of the file
};
PackWritten write_pack(const std::filesystem::path& file, std::vector<std::string> digests,
                       const std::function<Bytes(const std::string& digest)>& entry);

}  // namespace kiln
