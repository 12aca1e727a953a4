// SPDX-License-Identifier: Apache-2.0
//
// The formats of MessagePack by their first byte.
#include "analysis/msgpack.h"

namespace kiln {
namespace {

constexpr int kDeepest = 32;

}  // namespace

bool MsgpackCursor::advance(std::uint64_t count) {
    if (failed_ || count > bytes_.size()) return !(failed_ = true);
    bytes_ = bytes_.subspan(count);
    return true;
}

std::optional<std::uint8_t> MsgpackCursor::head() {
    if (failed_ || bytes_.empty()) return fail();
    const auto first = std::to_integer<std::uint8_t>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    return first;
}

std::optional<std::uint64_t> MsgpackCursor::big_endian(std::size_t count) {
    if (failed_ || bytes_.size() < count) return fail();
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) value = value << 8 | std::to_integer<std::uint64_t>(bytes_[i]);
    bytes_ = bytes_.subspan(count);
    return value;
}

// A kind of value. A small length is in the low bits of the first byte; a larger one follows one of several
// consecutive first bytes.
std::optional<std::uint64_t> MsgpackCursor::length(std::uint8_t fix_base, unsigned fix_most,
                                                   std::uint8_t first_wide, std::size_t first_bytes,
                                                   int wide_kinds) {
    const auto first = head();
    if (!first) return std::nullopt;
    if (*first >= fix_base && *first <= fix_base + fix_most) return *first - fix_base;
    for (int kind = 0; kind < wide_kinds; ++kind)
        if (*first == first_wide + kind) return big_endian(first_bytes << kind);
    return fail();
}

std::optional<std::uint64_t> MsgpackCursor::map() { return length(0x80, 15, 0xde, 2, 2); }

std::optional<std::uint64_t> MsgpackCursor::array() { return length(0x90, 15, 0xdc, 2, 2); }

std::optional<std::string_view> MsgpackCursor::text() {
    const auto count = length(0xa0, 31, 0xd9, 1, 3);
    if (!count) return std::nullopt;
    const auto* const begin = reinterpret_cast<const char*>(bytes_.data());
    if (!advance(*count)) return std::nullopt;
    return std::string_view(begin, *count);
}

std::optional<std::uint64_t> MsgpackCursor::number() { return length(0x00, 0x7f, 0xcc, 1, 4); }

bool MsgpackCursor::skip(int depth) {
    if (depth > kDeepest) return !(failed_ = true);
    const auto first = head();
    if (!first) return false;
    const unsigned byte = *first;
    const auto skip_values = [&](std::optional<std::uint64_t> count) {
        if (!count) return false;
        // Each value has at least one byte, so that a wrong count fails at the end of the bytes.
        for (std::uint64_t i = 0; i < *count; ++i)
            if (!skip(depth + 1)) return false;
        return true;
    };
    const auto skip_bytes = [&](std::optional<std::uint64_t> count, unsigned more = 0) {
        return count && advance(*count) && advance(more);
    };
    if (byte <= 0x7f || byte >= 0xe0) return true;                       // small integers
    if (byte <= 0x8f) return skip_values(std::uint64_t{byte & 15} * 2);  // a small map
    if (byte <= 0x9f) return skip_values(byte & 15);                     // a small array
    if (byte <= 0xbf) return advance(byte & 31);                         // a short text
    switch (byte) {
        case 0xc0:  // nil
        case 0xc2:  // false
        case 0xc3:  // true
            return true;
        case 0xc4:  // bytes
        case 0xc5:
        case 0xc6:
            return skip_bytes(big_endian(std::size_t{1} << (byte - 0xc4)));
        case 0xc7:  // an extension: its type is one byte more
        case 0xc8:
        case 0xc9:
            return skip_bytes(big_endian(std::size_t{1} << (byte - 0xc7)), 1);
        case 0xca:  // float
            return advance(4);
        case 0xcb:  // double
            return advance(8);
        case 0xcc:  // unsigned integers
        case 0xcd:
        case 0xce:
        case 0xcf:
            return advance(std::uint64_t{1} << (byte - 0xcc));
        case 0xd0:  // signed integers
        case 0xd1:
        case 0xd2:
        case 0xd3:
            return advance(std::uint64_t{1} << (byte - 0xd0));
        case 0xd4:  // extensions of fixed sizes
        case 0xd5:
        case 0xd6:
        case 0xd7:
        case 0xd8:
            return advance((std::uint64_t{1} << (byte - 0xd4)) + 1);
        case 0xd9:  // texts
        case 0xda:
        case 0xdb:
            return skip_bytes(big_endian(std::size_t{1} << (byte - 0xd9)));
        case 0xdc:  // arrays
        case 0xdd:
            return skip_values(big_endian(std::size_t{2} << (byte - 0xdc)));
        case 0xde:  // maps
        case 0xdf: {
            const auto pairs = big_endian(std::size_t{2} << (byte - 0xde));
            return pairs && skip_values(*pairs * 2);
        }
        default:
            return !(failed_ = true);
    }
}

}  // namespace kiln
