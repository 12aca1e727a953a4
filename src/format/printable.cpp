// SPDX-License-Identifier: Apache-2.0
#include "format/printable.h"

#include <cstddef>

#include "format/format.h"

namespace kiln {
namespace {

/// The bytes of the UTF-8 character that the text begins with; 0: it begins with none.
std::size_t character_bytes(std::string_view text) {
    const auto byte = [&](std::size_t i) {
        return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
    };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    const std::size_t count = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    for (std::size_t i = 1; i < count; ++i)
        if ((byte(i) & 0xc0U) != 0x80) return 0;
    // Written with more bytes than needed, half of a pair, or beyond the last character.
    const unsigned second = byte(1);
    const bool is_none = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                         (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
    return is_none ? 0 : count;
}

bool is_control(std::string_view character) {
    const auto first = static_cast<unsigned char>(character[0]);
    if (character.size() == 1) return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
    return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

}  // namespace

std::string printable(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const std::size_t count = character_bytes(text);
        const std::string_view character = text.substr(0, count == 0 ? 1 : count);
        text.remove_prefix(character.size());
        if (count != 0 && !is_control(character)) {
            result += character;
            continue;
        }
        for (const char c : character) result += formatted("\\x{:02x}", static_cast<unsigned char>(c));
    }
    return result;
}

}  // namespace kiln
