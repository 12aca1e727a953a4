// SPDX-License-Identifier: Apache-2.0
#include "service/argument_types.h"

#include <string_view>
#include <utility>

#include "format/format.h"

namespace kiln {
namespace {

// A declared type, taken apart: "const half*" is a pointer to const "half".
struct Declared {
    std::string scalar;
    bool is_pointer = false;
    bool points_to_const = false;
};

Declared take_apart(std::string text) {
    Declared declared;
    if (text.ends_with('*')) {
        declared.is_pointer = true;
        text.pop_back();
        while (text.ends_with(' ')) text.pop_back();
        if (text.starts_with("const ")) {
            declared.points_to_const = true;
            text.erase(0, 6);
        }
    }
    declared.scalar = std::move(text);
    return declared;
}

// 0 for a type whose size only the compiler knows.
std::size_t bytes_of(const Declared& declared) {
    if (declared.is_pointer) return sizeof(void*);
    const std::pair<std::string_view, std::size_t> known[] = {
        {"bool", 1},           {"signed char", 1}, {"unsigned char", 1}, {"short", 2},
        {"unsigned short", 2}, {"half", 2},        {"bfloat16", 2},      {"int", 4},
        {"unsigned int", 4},   {"float", 4},       {"long long", 8},     {"unsigned long long", 8},
        {"double", 8}};
    for (const auto& [name, bytes] : known) {
        if (name == declared.scalar) return bytes;
    }
    return 0;
}

}  // namespace

std::size_t declared_bytes(const std::string& declaration) { return bytes_of(take_apart(declaration)); }

bool fits(const ArgumentType& given, const std::string& declaration) {
    const Declared declared = take_apart(declaration);
    if (given.is_pointer != declared.is_pointer) return false;
    if (given.is_pointer) {
        if (given.points_to_const && !declared.points_to_const) return false;
        return given.scalar == "void" || declared.scalar == "void" || given.scalar.empty() ||
               given.scalar == declared.scalar;
    }
    if (!given.scalar.empty()) return given.scalar == declared.scalar;
    const std::size_t bytes = bytes_of(declared);
    return bytes == 0;  // a struct on both sides; the driver's own size check follows
}

std::string text_of(const ArgumentType& type) {
    std::string scalar =
        type.scalar.empty() ? formatted("struct of {} bytes", type.size) : std::string(type.scalar);
    if (!type.is_pointer) return scalar;
    if (type.scalar.empty()) scalar = "struct";
    return (type.points_to_const ? "const " : "") + scalar + "*";
}

}  // namespace kiln
