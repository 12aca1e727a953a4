// SPDX-License-Identifier: Apache-2.0
//
// Reading packs. The whole file is mapped once; a look-up is a binary search in the mapped rows and a check
// of the one entry.
#include "cache/seed_pack.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "base/file_name.h"
#include "cache/entry.h"
#include "cache/pack_format.h"
#include "format/format.h"

namespace kiln {
namespace {

using pack::Digest;
using pack::Head;
using pack::Row;

Row row_at(std::span<const std::byte> rows, std::size_t index) {
    Row row;
    std::memcpy(&row, rows.data() + index * sizeof(Row), sizeof(Row));
    return row;
}

/// The first row that is not below the digest.
std::size_t lower_bound(std::span<const std::byte> rows, std::size_t count, const Digest& digest) {
    std::size_t begin = 0, end = count;
    while (begin < end) {
        const std::size_t middle = begin + (end - begin) / 2;
        if (std::memcmp(rows.data() + middle * sizeof(Row), digest.data(), digest.size()) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

/// Owns the mapping of a whole file.
class Mapping {
  public:
    Mapping(int fd, std::size_t size) : size_(size) {
        address_ = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping() {
        if (*this) ::munmap(address_, size_);
    }
    explicit operator bool() const { return address_ != MAP_FAILED; }
    std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(address_), size_}; }

  private:
    void* address_;
    std::size_t size_;
};

}  // namespace

std::optional<PackIndex> PackIndex::parse(std::span<const std::byte> file, std::string& reason) {
    const auto reject = [&](std::string why) {
        reason = std::move(why);
        return std::nullopt;
    };
    if (file.size() < pack::index_bytes(0)) return reject("it is too short");
    Head head;
    std::memcpy(&head, file.data(), sizeof(head));
    if (head.magic != pack::kMagic) return reject("it does not start like a Kiln pack");
    if (head.version != pack::kVersion)
        return reject(formatted("its format version is {}, not {}", head.version, pack::kVersion));
    if (head.row_bytes != sizeof(Row)) return reject("its index has rows of an unknown size");
    if (head.total_bytes != file.size())
        return reject(formatted("it has {} bytes and should have {}", file.size(), head.total_bytes));
    if (head.count > (file.size() - pack::index_bytes(0)) / sizeof(Row))
        return reject("its index does not fit into it");

    const auto count = static_cast<std::size_t>(head.count);
    const std::uint64_t index_bytes = pack::index_bytes(count);
    const auto content = file.first(index_bytes - sizeof(Checksum));
    const Checksum sum = checksum(content);
    if (std::memcmp(sum.data(), file.data() + content.size(), sum.size()) != 0)
        return reject("the checksum of its index is wrong");

    PackIndex index;
    index.rows_ = content.subspan(sizeof(Head));
    index.count_ = count;
    for (std::size_t i = 0; i < count; ++i) {
        const Row row = row_at(index.rows_, i);
        if (i > 0 && !(row_at(index.rows_, i - 1).digest < row.digest))
            return reject("its index is not sorted");
        if (row.offset % pack::kAlignment != 0 || row.offset < index_bytes || row.offset > file.size() ||
            row.length > file.size() - row.offset)
            return reject("an entry lies outside of it");
    }
    return index;
}

std::string PackIndex::digest(std::size_t index) const {
    return pack::digest_text(row_at(rows_, index).digest);
}

PackIndex::Place PackIndex::place(std::size_t index) const {
    const Row row = row_at(rows_, index);
    return {row.offset, row.length};
}

std::optional<PackIndex::Place> PackIndex::find(const std::string& digest) const {
    const auto wanted = pack::parse_digest(digest);
    if (!wanted) return std::nullopt;
    const std::size_t index = lower_bound(rows_, count_, *wanted);
    if (index == count_ || row_at(rows_, index).digest != *wanted) return std::nullopt;
    return place(index);
}

SeedPack::SeedPack(std::filesystem::path file, Trust trust) : file_(std::move(file)) {
    try {
        open(trust);
    } catch (const std::exception& exception) {
        problem_ = exception.what();
    }
    if (!problem_.empty()) problem_ = "the seed pack " + file_.string() + " can't be used: " + problem_;
}

void SeedPack::open(Trust trust) {
    const auto fail = [this](std::string why) { problem_ = std::move(why); };
    // O_NONBLOCK: so that a named pipe is rejected instead of waiting for a writer.
    const FileDescriptor fd(::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!fd) return fail(std::strerror(errno));
    if (::fstat(fd.value(), &status_) != 0) return fail(std::strerror(errno));
    if (!S_ISREG(status_.st_mode)) return fail("it is " + kind_text(status_) + " and no regular file");
    if (auto why = distrust(status_, trust); !why.empty()) return fail(std::move(why));

    std::shared_ptr<Mapping> mapping;
    if (status_.st_size > 0) {
        mapping = std::make_shared<Mapping>(fd.value(), static_cast<std::size_t>(status_.st_size));
        if (!*mapping) return fail(std::string("it can't be mapped: ") + std::strerror(errno));
        mapping_ = Bytes(mapping, mapping->bytes());
    }
    std::string reason;
    index_ = PackIndex::parse({mapping_.data(), mapping_.size()}, reason);
    if (index_) return;
    mapping_ = {};
    fail(std::move(reason));
}

bool SeedPack::changed_in_place() const {
    struct stat now;
    // The path may refer to another file by now; the mapped file is unchanged.
    if (::stat(file_.c_str(), &now) != 0 || now.st_dev != status_.st_dev || now.st_ino != status_.st_ino)
        return false;
    return now.st_size != status_.st_size || now.st_mtim.tv_sec != status_.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != status_.st_mtim.tv_nsec;
}

Lookup SeedPack::find(const BuildKey& key) const {
    if (!index_) return {};
    Lookup lookup;
    try {
        // If the file shrank, accessing the mapping would fault.
        if (changed_in_place()) {
            lookup.place = file_.string();
            lookup.rejected = changed_message();
            return lookup;
        }
        const auto place = index_->find(key.digest);
        if (!place) return {};
        lookup.place = file_.string();
        Bytes bytes = mapping_.part(place->offset, place->length);
        std::string reason;
        auto entry = decode_entry(bytes, reason);
        if (entry && entry->key_text != key.text) {
            entry.reset();
            reason = "it was made from other ingredients";
        }
        if (entry) {
            lookup.binary = std::move(entry->binary);
            lookup.entry = std::move(bytes);
        } else {
            lookup.rejected =
                "the entry " + key.digest + " of " + file_.string() + " was not used: " + reason;
        }
    } catch (const std::exception& exception) {
        lookup = {};
        lookup.rejected = file_.string() + " was not used: " + exception.what();
    }
    return lookup;
}

std::string SeedPack::changed_message() const {
    return file_.string() +
           " was not used: it was changed in place since it was opened; replace a seed pack by a rename";
}

// Of an entry that was not checked; empty when it is none.
std::string_view SeedPack::key_text(const Bytes& entry) {
    const std::span<const std::byte> all(entry.data(), entry.size());
    const auto place = find_key_text(all.first(std::min(all.size(), kEntryHeadBytes)), all.size());
    if (!place) return {};
    return {reinterpret_cast<const char*>(all.data()) + place->offset,
            static_cast<std::size_t>(place->length)};
}

// Compares every entry's key; most differ in the first hundred bytes.
Lookup SeedPack::find_of_any_compiler(const BuildKey& open_key, Includes includes) const {
    Lookup lookup;
    if (!index_) return lookup;
    try {
        if (changed_in_place()) {
            lookup.place = file_.string();
            lookup.rejected = changed_message();
            return lookup;
        }
        const auto entry_at = [&](std::size_t i) {
            const PackIndex::Place place = index_->place(i);
            return mapping_.part(place.offset, place.length);
        };
        std::vector<std::size_t> fitting;
        for (std::size_t i = 0; i < size(); ++i)
            if (is_made_by_any(key_text(entry_at(i)), open_key.text, includes)) fitting.push_back(i);
        std::ranges::sort(fitting, {}, [&](std::size_t i) { return index_->place(i).offset; });
        for (const std::size_t i : fitting) {
            Bytes bytes = entry_at(i);
            lookup.place = file_.string();
            std::string reason;
            auto entry = decode_entry_of(digest(i), bytes, reason);
            if (!entry) {
                lookup.rejected =
                    "the entry " + digest(i) + " of " + file_.string() + " was not used: " + reason;
                continue;
            }
            lookup.binary = std::move(entry->binary);
            lookup.key = {digest(i), std::move(entry->key_text)};
            lookup.entry = std::move(bytes);
            break;
        }
    } catch (const std::exception& exception) {
        lookup = {};
        lookup.rejected = file_.string() + " was not used: " + exception.what();
    }
    return lookup;
}

Bytes SeedPack::entry(std::size_t index) const {
    if (changed_in_place()) return {};
    const PackIndex::Place place = index_->place(index);
    return mapping_.part(place.offset, place.length);
}

std::optional<std::string_view> SeedPack::key_text(std::size_t index) const {
    const Bytes entry = this->entry(index);
    const std::span<const std::byte> all(entry.data(), entry.size());
    const auto place = find_key_text(all.first(std::min(all.size(), kEntryHeadBytes)), all.size());
    if (!place) return std::nullopt;
    const auto text = all.subspan(place->offset, place->length);
    return std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
}

}  // namespace kiln
