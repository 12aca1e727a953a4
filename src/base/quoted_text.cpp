// SPDX-License-Identifier: Apache-2.0
#include "base/quoted_text.h"

namespace kiln {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

}  // namespace

std::string quoted_text(std::string_view body) {
    std::string text = "\"";
    for (const char c : body) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            text.append(1, '\\').append(1, c);
        else if (c == '\n')
            text += "\\n";
        else if (byte < 0x20 || byte >= 0x7f)
            text.append("\\x").append(1, kHexDigits[byte >> 4]).append(1, kHexDigits[byte & 15]);
        else
            text += c;
    }
    return text + '"';
}

std::optional<std::string> unquoted_text(std::string_view quoted) {
    if (quoted.size() < 2 || quoted.front() != '"' || quoted.back() != '"') return std::nullopt;
    quoted = quoted.substr(1, quoted.size() - 2);
    std::string body;
    for (std::size_t i = 0; i < quoted.size(); ++i) {
        if (quoted[i] == '"') return std::nullopt;
        if (quoted[i] != '\\') {
            body += quoted[i];
            continue;
        }
        if (++i == quoted.size()) return std::nullopt;
        const char escaped = quoted[i];
        if (escaped == '"' || escaped == '\\') {
            body += escaped;
        } else if (escaped == 'n') {
            body += '\n';
        } else if (escaped == 'x' && i + 2 < quoted.size()) {
            const std::size_t high = kHexDigits.find(quoted[i + 1]), low = kHexDigits.find(quoted[i + 2]);
            if (high == kHexDigits.npos || low == kHexDigits.npos) return std::nullopt;
            body += static_cast<char>(high << 4 | low);
            i += 2;
        } else {
            return std::nullopt;
        }
    }
    return body;
}

}  // namespace kiln
