// SPDX-License-Identifier: Apache-2.0
//
// Lists and upkeep. What moves entries is in cache_transfer.cpp.
#include "service/cache_admin.h"

#include <kiln/error.h>

#include <algorithm>
#include <cctype>
#include <tuple>
#include <utility>

#include "base/words.h"
#include "cache/key_text.h"
#include "format/format.h"

namespace kiln {
namespace {

constexpr std::size_t kDigestDigits = 64;
// Fewer digits would name another entry tomorrow.
constexpr std::size_t kFewestDigits = 4;
constexpr std::size_t kMostListed = 5;

std::string lower_case(std::string_view text) {
    std::string lower(text);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return lower;
}

bool is_part_of_key(std::string_view text) {
    return text.size() <= kDigestDigits && std::all_of(text.begin(), text.end(), [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           });
}

// So many digits that no two of these sorted digests look alike.
std::size_t telling_digits(const std::vector<std::string>& digests) {
    std::size_t digits = 12;
    for (std::size_t i = 1; i < digests.size(); ++i) {
        const auto [end, other] = std::mismatch(digests[i].begin(), digests[i].end(), digests[i - 1].begin());
        digits = std::max(digits, static_cast<std::size_t>(end - digests[i].begin()) + 1);
    }
    return std::min(digits, kDigestDigits);
}

std::string list_of(const DiskCache& disk, const std::vector<std::string>& digests) {
    const std::size_t digits = telling_digits(digests);
    std::vector<std::string> shown;
    for (std::size_t i = 0; i < std::min(digests.size(), kMostListed); ++i) {
        const auto text = disk.key_text(digests[i]);
        const auto summary = text ? summarise_key(*text) : std::nullopt;
        shown.push_back(digests[i].substr(0, digits) + (summary ? " (" + summary->variant + ")" : ""));
    }
    if (digests.size() > kMostListed) shown.push_back(formatted("and {} more", digests.size() - kMostListed));
    return join(shown);
}

}  // namespace

std::optional<ReadEntry> read_entry(const std::string& digest, const Bytes& bytes, std::string& reason) {
    auto entry = decode_entry_of(digest, bytes, reason);
    if (!entry) return std::nullopt;
    auto key = summarise_key(entry->key_text);
    if (!key) {
        reason = "its key can't be read";
        return std::nullopt;
    }
    ReadEntry read;
    read.summary.key = digest;
    read.summary.variant = std::move(key->variant);
    read.summary.kernel = std::move(key->kernel);
    read.summary.backend = key->backend;
    read.summary.arch = std::move(key->arch);
    read.summary.kind = entry->binary.kind;
    read.summary.compiler = entry->binary.compiler;
    read.summary.compile_ms = entry->binary.compile_ms;
    read.summary.bytes = bytes.size();
    read.entry = std::move(*entry);
    return read;
}

std::string resolve_key(const DiskCache& disk, std::string_view key,
                        const std::vector<DiskCache::Item>& items) {
    const std::string wanted = lower_case(key);
    const std::string named = "'" + std::string(key) + "'";
    if (!is_part_of_key(wanted) || wanted.empty())
        throw UsageError(named +
                         " is not a key: a key has 64 hexadecimal digits; the first four or more are enough");
    if (wanted.size() < kFewestDigits)
        throw UsageError(
            formatted("{} is too short for a key; give {} of its digits or more", named, kFewestDigits));
    std::vector<std::string> found;
    for (const auto& item : items)
        if (item.digest.starts_with(wanted)) found.push_back(item.digest);
    if (found.empty())
        throw UsageError(formatted("there is no entry {} in {}, which has {}{}", key,
                                   disk.directory().string(), items.size(),
                                   items.size() == 1 ? " entry" : " entries"));
    if (found.size() == 1) return found.front();
    std::sort(found.begin(), found.end());
    throw UsageError(
        formatted("{} entries start with {}; give more digits: {}", found.size(), key, list_of(disk, found)));
}

std::vector<DiskCache::Item> items_by_use(const DiskCache& disk) {
    auto items = disk.items();
    std::sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
        return std::tie(b.last_used, a.digest) < std::tie(a.last_used, b.digest);
    });
    return items;
}

Cache::Cache(CacheOptions options) : state_(std::make_unique<State>()) {
    state_->options = std::move(options);
    state_->disk = open_disk(state_->options);
    if (!state_->disk)
        throw CacheError(
            "there is no cache directory: none of KILN_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
    if (!state_->disk->readable()) throw CacheError(state_->disk->problem());
    state_->remote = open_remote(state_->options);
}
Cache::~Cache() = default;
Cache::Cache(Cache&&) noexcept = default;
Cache& Cache::operator=(Cache&&) noexcept = default;

const std::filesystem::path& Cache::directory() const { return state_of(state_).disk->directory(); }

std::vector<CacheEntry> Cache::entries() const {
    std::vector<CacheEntry> entries;
    for (const auto& item : items_by_use(*state_of(state_).disk)) {
        std::string reason;
        auto read = read_entry(item.digest, state_of(state_).disk->read(item.digest, reason), reason);
        if (!read) continue;
        read->summary.last_used = item.last_used;
        entries.push_back(std::move(read->summary));
    }
    return entries;
}

CacheEntryDetails Cache::entry(std::string_view key) const {
    const auto& disk = *state_of(state_).disk;
    const auto items = disk.items();
    const std::string digest = resolve_key(disk, key, items);
    std::string reason;
    const Bytes bytes = disk.read(digest, reason);
    if (bytes.empty()) throw CacheError(reason);
    auto read = read_entry(digest, bytes, reason);
    if (!read) throw CacheError(disk.entry_path(digest).string() + " was not used: " + reason);
    for (const auto& item : items)
        if (item.digest == digest) read->summary.last_used = item.last_used;
    return {std::move(read->summary),
            {digest, std::move(read->entry.key_text)},
            std::move(read->entry.binary.log),
            disk.entry_path(digest).string()};
}

CacheUsage Cache::usage() const { return state_of(state_).disk->usage(); }
CacheVerification Cache::verify(bool remove) { return state_of(state_).disk->verify(remove); }
CacheTransfer Cache::prune(std::uint64_t limit_bytes) { return state_of(state_).disk->prune(limit_bytes); }
CacheTransfer Cache::clear() { return state_of(state_).disk->clear(); }

}  // namespace kiln
