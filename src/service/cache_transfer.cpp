// SPDX-License-Identifier: Apache-2.0
//
// Cache: entries to and from packs and the remote. Each is checked before it goes anywhere, and what comes in
// never pushes out what is there already.
#include <kiln/error.h>

#include <algorithm>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "base/file_name.h"
#include "base/words.h"
#include "format/format.h"
#include "service/cache_admin.h"

namespace kiln {
namespace {

// Enough of a digest for a message.
std::string short_key(const std::string& digest) { return digest.substr(0, 12); }

std::string count_text(std::uint64_t entries) {
    return formatted("{}{}", entries, entries == 1 ? " entry" : " entries");
}

// Takes entries into a directory until it is full. Pruning would make room for more of them by throwing out
// what was in use or has just come.
class EntryImporter {
  public:
    EntryImporter(DiskCache& disk, std::string source, CacheTransfer& transfer)
        : disk_(disk), source_(std::move(source)), transfer_(transfer) {
        std::uint64_t used = 0;
        for (const auto& item : disk_.items()) used += item.bytes;
        room_ = disk_.limit_bytes() - std::min(used, disk_.limit_bytes());
    }

    bool has(const std::string& digest) const {
        std::string reason;
        return !disk_.read(digest, reason).empty();
    }
    void refuse(const std::string& digest, const std::string& reason) {
        transfer_.refused.push_back("the entry " + short_key(digest) + " of " + source_ +
                                    " was not taken: " + reason);
    }
    /// False: it was sound and there is no room for it. Throws CacheError when nothing can be stored.
    bool take(const std::string& digest, const Bytes& bytes) {
        std::string reason;
        if (!read_entry(digest, bytes, reason)) {
            refuse(digest, reason);
            return true;
        }
        if (bytes.size() > room_ && bytes.size() <= disk_.limit_bytes()) return false;
        const auto stored = disk_.store(digest, bytes);
        if (stored.stored) {
            room_ -= std::min<std::uint64_t>(room_, bytes.size());
            ++transfer_.entries;
            transfer_.bytes += bytes.size();
        } else if (!stored.reason.empty()) {
            refuse(digest, stored.reason);
        } else {
            throw CacheError(disk_.problem());
        }
        return true;
    }
    void tell_full(std::uint64_t left) {
        transfer_.refused.push_back("the last " + count_text(left) + " of " + source_ +
                                    " stayed there: " + disk_.directory().string() +
                                    " is full within its limit of " + bytes_text(disk_.limit_bytes()) +
                                    "; prune it, or raise the limit (KILN_CACHE_LIMIT)");
    }

  private:
    DiskCache& disk_;
    std::string source_;
    CacheTransfer& transfer_;
    std::uint64_t room_ = 0;
};

SeedPack open_pack(const std::filesystem::path& file, Trust trust) {
    SeedPack pack(file, trust);
    if (!pack.problem().empty()) throw CacheError(pack.problem());
    return pack;
}

RemoteCache& required(const std::unique_ptr<RemoteCache>& remote) {
    if (!remote)
        throw CacheError(
            "there is no remote to exchange entries with; set KILN_REMOTE to the URL of a Redis "
            "server, say redis://cache.example:6379/0");
    return *remote;
}

void report(const CacheProgress& progress, std::uint64_t done, std::uint64_t total) {
    if (progress) progress(done, total);
}

}  // namespace

CacheTransfer Cache::pack(const std::filesystem::path& file, const std::vector<std::string>& keys) const {
    const auto& disk = *state_of(state_).disk;
    // The most recently used first: of several that fit, a look-up takes the first.
    const auto items = items_by_use(disk);
    std::unordered_set<std::string> wanted;
    for (const auto& key : keys) wanted.insert(resolve_key(disk, key, items));
    std::vector<std::string> digests;
    for (const auto& item : items)
        if (keys.empty() || wanted.contains(item.digest)) digests.push_back(item.digest);

    CacheTransfer transfer;
    std::size_t left = digests.size();
    std::string nothing = "there is no entry in " + disk.directory().string();
    const auto entry = [&](const std::string& digest) {
        std::string reason;
        Bytes bytes = disk.read(digest, reason);
        if (!bytes.empty() && !read_entry(digest, bytes, reason)) {
            reason = disk.entry_path(digest).string() + " was not used: " + reason;
            bytes = {};
        }
        if (bytes.empty()) {
            transfer.refused.push_back(reason);
            nothing = "no entry is sound: " + transfer.refused.front();
        } else {
            ++transfer.entries;
        }
        // Thrown from here, so that a pack which is there already stays.
        if (--left == 0 && transfer.entries == 0) throw CacheError(nothing + ", so no pack was written");
        return bytes;
    };
    if (digests.empty()) throw CacheError(nothing + ", so no pack was written");
    try {
        transfer.bytes = write_pack(file, digests, entry).bytes;
    } catch (const FileError& error) {
        throw CacheError("the seed pack " + file.string() + " can't be written: " + error.reason());
    }
    return transfer;
}

CacheTransfer Cache::unpack(const std::filesystem::path& file) {
    const SeedPack pack = open_pack(file, trust_of(state_of(state_).options));
    CacheTransfer transfer;
    EntryImporter intake(*state_of(state_).disk, file.string(), transfer);
    for (std::size_t i = 0; i < pack.size(); ++i) {
        const std::string digest = pack.digest(i);
        if (intake.has(digest)) {
            ++transfer.already_there;
        } else if (!intake.take(digest, pack.entry(i))) {
            intake.tell_full(pack.size() - i);
            break;
        }
    }
    return transfer;
}

CacheTransfer Cache::push(const CacheProgress& progress, std::stop_token stop) {
    auto& remote = required(state_of(state_).remote);
    if (remote.read_only())
        throw CacheError("nothing can be pushed to " + remote.place() +
                         ": it is set to be read only (KILN_REMOTE_MODE)");
    const auto& disk = *state_of(state_).disk;
    CacheTransfer transfer;
    std::uint64_t done = 0;
    // The most recently used first: should it be stopped, those are there.
    const auto items = items_by_use(disk);
    for (const auto& item : items) {
        if (stop.stop_requested()) break;
        std::string reason;
        if (remote.contains(item.digest)) {
            ++transfer.already_there;
        } else if (const Bytes bytes = disk.read(item.digest, reason); bytes.empty()) {
            transfer.refused.push_back(reason);
        } else if (bytes.size() > RemoteCache::kLargestEntry) {
            transfer.refused.push_back("the entry " + short_key(item.digest) + " was not sent: it has " +
                                       bytes_text(bytes.size()) + ", and the remote takes " +
                                       bytes_text(RemoteCache::kLargestEntry) + " at most");
        } else {
            remote.put(item.digest, bytes);
            ++transfer.entries;
            transfer.bytes += bytes.size();
        }
        report(progress, ++done, items.size());
    }
    return transfer;
}

CacheTransfer Cache::pull(const CacheProgress& progress, std::stop_token stop) {
    auto& remote = required(state_of(state_).remote);
    std::vector<std::string> digests;
    const auto note = [&](const std::string& digest) {
        digests.push_back(digest);
        return true;
    };
    remote.for_each(note, stop);
    CacheTransfer transfer;
    EntryImporter intake(*state_of(state_).disk, remote.place(), transfer);
    std::uint64_t done = 0;
    for (const auto& digest : digests) {
        if (stop.stop_requested()) break;
        std::string reason;
        if (intake.has(digest)) {
            ++transfer.already_there;
        } else if (const Bytes bytes = remote.fetch(digest, reason); bytes.empty()) {
            intake.refuse(digest, reason);
        } else if (!intake.take(digest, bytes)) {
            intake.tell_full(digests.size() - done);
            break;
        }
        report(progress, ++done, digests.size());
    }
    return transfer;
}

inline namespace KILN_ABI {

std::vector<CacheEntry> list_pack(const std::filesystem::path& file) {
    const SeedPack pack = open_pack(file, trust_of({}));
    std::vector<CacheEntry> entries;
    for (std::size_t i = 0; i < pack.size(); ++i) {
        std::string reason;
        auto read = read_entry(pack.digest(i), pack.entry(i), reason);
        if (!read)
            throw CacheError("the entry " + short_key(pack.digest(i)) + " of " + file.string() +
                             " can't be used: " + reason);
        entries.push_back(std::move(read->summary));
    }
    return entries;
}

}  // namespace KILN_ABI
}  // namespace kiln
