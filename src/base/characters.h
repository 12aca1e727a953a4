// SPDX-License-Identifier: Apache-2.0
//
// Kinds of characters in C++ and in //@ lines, whatever the locale.
#pragma once

namespace kiln {

constexpr bool is_identifier_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }
constexpr bool is_identifier_part(char c) { return is_identifier_start(c) || is_digit(c); }

}  // namespace kiln
