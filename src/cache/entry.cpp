// SPDX-License-Identifier: Apache-2.0
//
// Head (magic, version, section count, total size), section table, sections at multiples of 64 bytes,
// and the XXH3-128 of all that goes before it. Integers are little-endian.
#include "cache/entry.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/digest.h"

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

struct KindName {
    BinaryKind kind;
    std::string_view name;
};
constexpr KindName kKinds[] = {{BinaryKind::cubin, "cubin"},
                               {BinaryKind::ptx, "ptx"},
                               {BinaryKind::code_object, "code_object"},
                               {BinaryKind::shared_object, "shared_object"}};

// "name value" lines; a value holds no newline.
std::string info_text(const Binary& binary) {
    const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const KindName& item) { return item.kind == binary.kind; });
    std::string compiler = binary.compiler;
    std::replace(compiler.begin(), compiler.end(), '\n', ' ');
    return "kind " + std::string(kind->name) + "\nentry " + binary.entry + "\ncompiler " + compiler +
           "\ncompile_us " + std::to_string(static_cast<std::int64_t>(binary.compile_ms * 1000)) + "\n";
}

bool read_info(std::string_view text, Binary& binary) {
    bool kind_known = false;
    while (!text.empty()) {
        const auto end = text.find('\n');
        if (end == std::string_view::npos) return false;
        const auto line = text.substr(0, end);
        text.remove_prefix(end + 1);
        const auto space = line.find(' ');
        if (space == std::string_view::npos) return false;
        const auto tag = line.substr(0, space);
        const auto value = line.substr(space + 1);
        if (tag == "kind") {
            for (const auto& item : kKinds) {
                if (item.name == value) binary.kind = item.kind, kind_known = true;
            }
        } else if (tag == "entry") {
            binary.entry = value;
        } else if (tag == "compiler") {
            binary.compiler = value;
        } else if (tag == "compile_us") {
            std::int64_t microseconds = 0;
            std::from_chars(value.data(), value.data() + value.size(), microseconds);
            binary.compile_ms = static_cast<double>(microseconds) / 1000;
        }
    }
    return kind_known && !binary.entry.empty();
}

}  // namespace

std::vector<std::byte> encode_entry(const BuildKey& key, const Binary& binary) {
    const std::string info = info_text(binary);
    const std::array<std::span<const std::byte>, kSectionCount> sections = {
        std::as_bytes(std::span(key.text)), std::as_bytes(std::span(info)),
        std::as_bytes(std::span(binary.log)), std::span(binary.bytes)};

    std::array<TableRow, kSectionCount> table;
    std::uint64_t end = sizeof(Head) + sizeof(table);
    for (std::size_t i = 0; i < sections.size(); ++i) {
        const std::uint64_t offset = (end + kAlignment - 1) / kAlignment * kAlignment;
        table[i] = {offset, sections[i].size()};
        end = offset + sections[i].size();
    }
    const Head head{kMagic, kVersion, kSectionCount, end + sizeof(Checksum)};

    std::vector<std::byte> bytes(head.total_bytes);
    std::memcpy(bytes.data(), &head, sizeof(head));
    std::memcpy(bytes.data() + sizeof(head), table.data(), sizeof(table));
    for (std::size_t i = 0; i < sections.size(); ++i) {
        std::copy(sections[i].begin(), sections[i].end(),
                  bytes.begin() + static_cast<std::ptrdiff_t>(table[i].offset));
    }
    const Checksum sum = checksum(std::span(bytes).first(end));
    std::memcpy(bytes.data() + end, sum.data(), sum.size());
    return bytes;
}

std::optional<Entry> decode_entry(std::span<const std::byte> bytes, std::string& reason) {
    const auto reject = [&](std::string why) {
        reason = std::move(why);
        return std::nullopt;
    };
    Head head;
    std::array<TableRow, kSectionCount> table;
    if (bytes.size() < sizeof(head) + sizeof(table) + sizeof(Checksum)) return reject("it is too short");
    std::memcpy(&head, bytes.data(), sizeof(head));
    if (head.magic != kMagic) return reject("it does not start like a Kiln entry");
    if (head.version != kVersion || head.section_count != kSectionCount)
        return reject("its format version is " + std::to_string(head.version) + ", not " +
                      std::to_string(kVersion));
    if (head.total_bytes != bytes.size())
        return reject("it has " + std::to_string(bytes.size()) + " bytes and should have " +
                      std::to_string(head.total_bytes));
    const auto content = bytes.first(bytes.size() - sizeof(Checksum));
    const Checksum sum = checksum(content);
    if (std::memcmp(sum.data(), bytes.data() + content.size(), sum.size()) != 0)
        return reject("its checksum is wrong");

    std::memcpy(table.data(), bytes.data() + sizeof(head), sizeof(table));
    for (const auto& row : table) {
        if (row.offset > content.size() || row.length > content.size() - row.offset)
            return reject("a section lies outside of it");
    }
    const auto text = [&](Section section) {
        const auto part = content.subspan(table[section].offset, table[section].length);
        return std::string_view(reinterpret_cast<const char*>(part.data()), part.size());
    };
    Entry entry;
    entry.key_text = text(kKey);
    if (!read_info(text(kInfo), entry.binary)) return reject("its information section can't be read");
    entry.binary.log = text(kLog);
    const auto binary = content.subspan(table[kBinary].offset, table[kBinary].length);
    if (binary.empty()) return reject("its binary is empty");
    entry.binary.bytes.assign(binary.begin(), binary.end());
    return entry;
}

}  // namespace kiln
