// SPDX-License-Identifier: Apache-2.0
#include "base/past_key.h"

#include <algorithm>

#include "base/characters.h"

namespace kiln {
namespace {

constexpr auto kAssemblerFiles = std::to_array<std::string_view>({".incbin", ".include"});
constexpr char kBeyondAscii = '\x80';

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// The value of a digit up to 16; 16 for another character.
unsigned digit(char c) {
    c = lower(c);
    if (is_digit(c)) return static_cast<unsigned>(c - '0');
    return c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a') + 10 : 16;
}

/// The character that the escape at the start of a text means, and its length there.
struct Escape {
    char meant = 0;
    std::size_t length = 0;
};

Escape simple_escape(char c) {
    constexpr std::string_view kNames = "abefnrtv", kMeant = "\a\b\033\f\n\r\t\v";
    const std::size_t at = kNames.find(lower(c));
    const bool is_known = at != kNames.npos && (c == kNames[at] || c == 'E');  // \E as \e, in GCC and Clang
    return {is_known ? kMeant[at] : c, 2};  // an unknown one is its character
}

Escape escape(std::string_view text) {
    if (text.size() < 2) return {text.front(), 1};
    const char kind = text[1];
    const bool is_universal = kind == 'u' || kind == 'U';
    const bool is_braced = text.size() > 2 && text[2] == '{' && (kind == 'x' || kind == 'u' || kind == 'o');
    const bool is_octal = digit(kind) < 8 || kind == 'o';
    if (!is_universal && kind != 'x' && digit(kind) >= 8 && !is_braced) return simple_escape(kind);
    const std::size_t begin = is_braced ? 3 : is_octal ? 1 : 2;
    const std::size_t most = is_braced || kind == 'x' ? text.npos : kind == 'U' ? 8 : is_octal ? 3 : 4;
    const std::string_view digits = text.substr(begin, most);
    unsigned number = 0;  // compilers take the low bits of one that is too large, with a warning
    std::size_t count = 0;
    const unsigned base = is_octal ? 8 : 16;
    for (; count < digits.size() && digit(digits[count]) < base; ++count)
        number = number * base + digit(digits[count]);
    if (count == 0) return simple_escape(kind);
    if (!is_universal) number &= 0xff;
    return {number < 128 ? static_cast<char>(number) : kBeyondAscii,
            std::min(begin + count + (is_braced ? 1 : 0), text.size())};
}

}  // namespace

std::string decoded_literal(std::string_view inside) {
    std::string meant;
    while (!inside.empty()) {
        const Escape next = inside.front() == '\\' ? escape(inside) : Escape{inside.front(), 1};
        meant += next.meant;
        inside.remove_prefix(next.length);
    }
    return meant;
}

std::optional<FileDirective> find_file_directive(std::string_view text) {
    for (std::size_t dot = text.find('.'); dot != text.npos; dot = text.find('.', dot + 1)) {
        if (dot > 0 && is_identifier_part(text[dot - 1])) continue;
        std::size_t end = dot + 1;
        while (end < text.size() && is_identifier_part(text[end])) ++end;
        for (const std::string_view directive : kAssemblerFiles)
            if (std::ranges::equal(text.substr(dot, end - dot), directive, {}, lower))
                return FileDirective{dot, directive};
    }
    return std::nullopt;
}

}  // namespace kiln
