// SPDX-License-Identifier: Apache-2.0
//
// Head (magic, version, section count, total size), section table, sections at multiples of 64 bytes, and the
// XXH3-128 of all that precedes it. Integers are little-endian. The encoding is unique, and anything else is
// rejected.
#include "cache/entry.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/digest.h"
#include "format/format.h"

namespace kiln {
namespace {

static_assert(std::endian::native == std::endian::little, "the entry format is written in native order");

constexpr std::array<char, 8> kMagic = {'K', 'I', 'L', 'N', 'E', 'N', 'T', '\n'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kAlignment = 64;
// In the order in which they are written.
enum Section : std::uint32_t { kKey, kInfo, kLog, kBinary, kSectionCount };

struct Head {
    std::array<char, 8> magic;
    std::uint32_t version;
    std::uint32_t section_count;
    std::uint64_t total_bytes;
};

struct TableRow {
    std::uint64_t offset;
    std::uint64_t length;
};
using Table = std::array<TableRow, kSectionCount>;

static_assert(sizeof(Head) + sizeof(Table) <= kEntryHeadBytes);

constexpr std::uint64_t aligned(std::uint64_t offset) {
    return (offset + kAlignment - 1) / kAlignment * kAlignment;
}

constexpr std::array kKinds = {BinaryKind::cubin, BinaryKind::ptx, BinaryKind::code_object,
                               BinaryKind::shared_object, BinaryKind::ltoir};
constexpr std::int64_t kMaxCompileUs = std::int64_t{1} << 52;  // exact as a double

// "name value" lines; a value holds no newline. The kernels' names, which have no blanks, are one value.
std::string info_text(const Binary& binary) {
    std::string text = "kind ";
    const auto append = [&](std::string_view tag, std::string value) {
        std::replace(value.begin(), value.end(), '\n', ' ');
        text.append("\n").append(tag).append(" ").append(value);
    };
    text += name(binary.kind);
    std::string entries = binary.entry;
    for (const std::string& entry : binary.more_entries) entries += ' ' + entry;
    append("entry", std::move(entries));
    append("compiler", binary.compiler);
    const double us = std::isfinite(binary.compile_ms) ? binary.compile_ms * 1000 : 0;
    append("compile_us", std::to_string(std::llround(std::clamp(us, 0.0, double{kMaxCompileUs}))));
    text += '\n';
    return text;
}

bool read_info(std::string_view text, Binary& binary) {
    // The value of the next line, which must have this name.
    const auto next = [&](std::string_view tag) -> std::optional<std::string_view> {
        const auto end = text.find('\n');
        if (end == std::string_view::npos || end <= tag.size() || !text.starts_with(tag) ||
            text[tag.size()] != ' ')
            return std::nullopt;
        const auto value = text.substr(tag.size() + 1, end - tag.size() - 1);
        text.remove_prefix(end + 1);
        return value;
    };
    const auto kind_name = next("kind");
    if (!kind_name) return false;
    const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                   [&](BinaryKind candidate) { return name(candidate) == *kind_name; });
    const auto entry = next("entry");
    const auto compiler = entry ? next("compiler") : std::nullopt;
    const auto compile_us = compiler ? next("compile_us") : std::nullopt;
    if (kind == kKinds.end() || !compile_us || entry->empty() || !text.empty()) return false;

    std::int64_t us = -1;
    const char* const end = compile_us->data() + compile_us->size();
    const auto [stop, error] = std::from_chars(compile_us->data(), end, us);
    if (error != std::errc() || stop != end || us < 0 || us > kMaxCompileUs) return false;
    binary.kind = *kind;
    const std::size_t first = std::min(entry->find(' '), entry->size());
    binary.entry = entry->substr(0, first);
    for (std::size_t begin = first; begin < entry->size();) {
        const std::size_t end_of_name = std::min(entry->find(' ', begin + 1), entry->size());
        if (end_of_name == begin + 1) return false;
        binary.more_entries.emplace_back(entry->substr(begin + 1, end_of_name - begin - 1));
        begin = end_of_name;
    }
    if (binary.entry.empty()) return false;
    binary.compiler = *compiler;
    binary.compile_ms = static_cast<double>(us) / 1000;
    return true;
}

// Empty when head and table fit a file of that size: every section at its place, after the previous one.
std::string check_layout(const Head& head, const Table& table, std::uint64_t file_bytes) {
    if (head.magic != kMagic) return "it does not start like a Kiln entry";
    if (head.version != kVersion)
        return formatted("its format version is {}, not {}", head.version, kVersion);
    if (head.section_count != kSectionCount)
        return formatted("it has {} sections, not {}", head.section_count, std::uint32_t{kSectionCount});
    if (head.total_bytes != file_bytes)
        return formatted("it has {} bytes and should have {}", file_bytes, head.total_bytes);
    const std::uint64_t content_bytes = file_bytes - sizeof(Checksum);
    std::uint64_t end = sizeof(Head) + sizeof(Table);
    for (const auto& row : table) {
        if (row.offset != aligned(end)) return "a section is not where it should be";
        if (row.offset > content_bytes || row.length > content_bytes - row.offset)
            return "a section lies outside of it";
        end = row.offset + row.length;
    }
    return end == content_bytes ? "" : "there are bytes that belong to no section";
}

struct Layout {
    Table table;
    std::string problem;
};

Layout read_layout(std::span<const std::byte> start, std::uint64_t file_bytes) {
    Layout layout;
    Head head;
    if (file_bytes < sizeof(Head) + sizeof(Table) + sizeof(Checksum) ||
        start.size() < sizeof(Head) + sizeof(Table)) {
        layout.problem = "it is too short";
        return layout;
    }
    std::memcpy(&head, start.data(), sizeof(head));
    std::memcpy(layout.table.data(), start.data() + sizeof(head), sizeof(layout.table));
    layout.problem = check_layout(head, layout.table, file_bytes);
    return layout;
}

bool is_zero(std::span<const std::byte> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Bytes encode_entry(const BuildKey& key, const Binary& binary) {
    const std::string info = info_text(binary);
    const std::array<std::span<const std::byte>, kSectionCount> sections = {
        std::as_bytes(std::span(key.text)), std::as_bytes(std::span(info)),
        std::as_bytes(std::span(binary.log)),
        std::span<const std::byte>(binary.bytes.data(), binary.bytes.size())};

    Table table;
    std::uint64_t end = sizeof(Head) + sizeof(Table);
    for (std::size_t i = 0; i < sections.size(); ++i) {
        table[i] = {aligned(end), sections[i].size()};
        end = table[i].offset + table[i].length;
    }
    const Head head{kMagic, kVersion, kSectionCount, end + sizeof(Checksum)};

    std::vector<std::byte> bytes(head.total_bytes);
    std::memcpy(bytes.data(), &head, sizeof(head));
    std::memcpy(bytes.data() + sizeof(head), table.data(), sizeof(table));
    for (std::size_t i = 0; i < sections.size(); ++i)
        std::copy(sections[i].begin(), sections[i].end(),
                  bytes.begin() + static_cast<std::ptrdiff_t>(table[i].offset));
    const Checksum sum = checksum(std::span(bytes).first(end));
    std::memcpy(bytes.data() + end, sum.data(), sum.size());
    return bytes;
}

std::optional<Entry> decode_entry(const Bytes& bytes, std::string& reason) {
    const std::span<const std::byte> all(bytes.data(), bytes.size());
    Layout layout = read_layout(all, all.size());
    if (!layout.problem.empty()) {
        reason = std::move(layout.problem);
        return std::nullopt;
    }
    const auto content = all.first(all.size() - sizeof(Checksum));
    const Checksum sum = checksum(content);
    if (std::memcmp(sum.data(), all.data() + content.size(), sum.size()) != 0) {
        reason = "its checksum is wrong";
        return std::nullopt;
    }
    const auto& table = layout.table;
    std::uint64_t end = sizeof(Head) + sizeof(Table);
    for (const auto& row : table) {
        if (!is_zero(content.subspan(end, row.offset - end))) {
            reason = "a gap between its sections is not zero";
            return std::nullopt;
        }
        end = row.offset + row.length;
    }
    const auto text = [&](Section section) {
        return text_of(content.subspan(table[section].offset, table[section].length));
    };
    Entry entry;
    if (!read_info(text(kInfo), entry.binary)) {
        reason = "its information section can't be read";
        return std::nullopt;
    }
    if (table[kBinary].length == 0) {
        reason = "its binary is empty";
        return std::nullopt;
    }
    entry.key_text = text(kKey);
    entry.binary.log = text(kLog);
    entry.binary.bytes = bytes.part(table[kBinary].offset, table[kBinary].length);
    return entry;
}

std::optional<Entry> decode_entry_of(const std::string& digest, const Bytes& bytes, std::string& reason) {
    auto entry = decode_entry(bytes, reason);
    if (entry && digest_hex(entry->key_text) != digest) {
        reason = "it was made from other ingredients than its name says";
        return std::nullopt;
    }
    return entry;
}

std::optional<KeyPlace> find_key_text(std::span<const std::byte> start, std::uint64_t file_bytes) {
    const Layout layout = read_layout(start, file_bytes);
    if (!layout.problem.empty()) return std::nullopt;
    return KeyPlace{layout.table[kKey].offset, layout.table[kKey].length};
}

}  // namespace kiln
