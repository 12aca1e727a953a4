// SPDX-License-Identifier: Apache-2.0
#include "base/past_key.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace kiln {
namespace {

/// The character that an escape at the start of `text` means, and its length there; a length of 0: it is another escape.
struct Escape {
    char meant = 0;
    std::size_t length = 0;
};

Escape numeric_escape(std::string_view text) {
    const auto digits = [&](std::size_t begin, std::size_t most, int base) {
        unsigned number = 0;
        const std::string_view part = text.substr(std::min(begin, text.size()), most);
        const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number, base);
        const auto count = static_cast<std::size_t>(end - part.data());
        return error == std::errc() && number < 128 ? Escape{static_cast<char>(number), begin + count}
                                                    : Escape{};
    };
    if (text.size() < 2) return {};
    const char kind = text[1];
    if (text.size() > 2 && text[2] == '{' && (kind == 'x' || kind == 'u' || kind == 'o')) {
        Escape braced = digits(3, text.npos, kind == 'o' ? 8 : 16);
        if (braced.length != 0) ++braced.length;  // the closing brace
        return braced;
    }
    if (kind == 'x') return digits(2, text.npos, 16);
    if (kind == 'u') return digits(2, 4, 16);
    if (kind == 'U') return digits(2, 8, 16);
    return digits(1, 3, 8);
}

}  // namespace

bool names_directive(std::string_view literal, std::string_view directive) {
    std::string meant;
    while (!literal.empty()) {
        Escape next;
        if (literal.front() == '\\') next = numeric_escape(literal);
        if (next.length == 0) next = {literal.front(), 1};
        meant +=
            next.meant >= 'A' && next.meant <= 'Z' ? static_cast<char>(next.meant - 'A' + 'a') : next.meant;
        literal.remove_prefix(std::min(next.length, literal.size()));
    }
    return meant.find(directive) != std::string::npos;
}

}  // namespace kiln
