// SPDX-License-Identifier: Apache-2.0
#include "dtype.h"

#include <cstdlib>
#include <unordered_map>

namespace kiln::python {

std::string text(DlDataType type) {
    const std::string bits = std::to_string(type.bits);
    switch (type.code) {
        case kDlInt:
            return "int" + bits;
        case kDlUint:
            return "uint" + bits;
        case kDlFloat:
            return "float" + bits;
        case kDlBfloat:
            return "bfloat" + bits;
        case kDlComplex:
            return "complex" + bits;
        case kDlBool:
            return "bool";
        default:
            return "DLPack's type " + std::to_string(type.code) + " of " + bits + " bits";
    }
}

std::optional<DlDataType> dtype_of(const std::string& normalised) {
    static const std::unordered_map<std::string_view, DlDataType> known = {
        {"half", {kDlFloat, 16, 1}},     {"bfloat16", {kDlBfloat, 16, 1}},
        {"float", {kDlFloat, 32, 1}},    {"double", {kDlFloat, 64, 1}},
        {"bool", {kDlBool, 8, 1}},       {"char", {kDlInt, 8, 1}},
        {"signed char", {kDlInt, 8, 1}}, {"unsigned char", {kDlUint, 8, 1}},
        {"short", {kDlInt, 16, 1}},      {"unsigned short", {kDlUint, 16, 1}},
        {"int", {kDlInt, 32, 1}},        {"unsigned int", {kDlUint, 32, 1}},
        {"long", {kDlInt, 64, 1}},       {"unsigned long", {kDlUint, 64, 1}},
        {"long long", {kDlInt, 64, 1}},  {"unsigned long long", {kDlUint, 64, 1}},
    };
    const auto found = known.find(normalised);
    return found == known.end() ? std::nullopt : std::optional(found->second);
}

std::optional<DlDataType> dtype_of_format(std::string_view format, std::int64_t item_bytes) {
    if (!format.empty() && std::string_view("<=@|").find(format[0]) != std::string_view::npos)
        format.remove_prefix(1);
    if (format.size() != 1) return std::nullopt;
    const auto bits = static_cast<std::uint8_t>(item_bytes * 8);
    switch (format[0]) {
        case 'e':
        case 'f':
        case 'd':
            return DlDataType{kDlFloat, bits, 1};
        case 'b':
        case 'h':
        case 'i':
        case 'l':
        case 'q':
        case 'n':
            return DlDataType{kDlInt, bits, 1};
        case 'B':
        case 'H':
        case 'I':
        case 'L':
        case 'Q':
        case 'N':
            return DlDataType{kDlUint, bits, 1};
        case '?':
            return DlDataType{kDlBool, 8, 1};
        default:
            return std::nullopt;
    }
}

std::optional<DlDataType> dtype_of_typestr(std::string_view typestr) {
    if (typestr.size() < 3 || typestr[0] == '>') return std::nullopt;
    const int bytes = std::atoi(std::string(typestr.substr(2)).c_str());
    if (bytes < 1 || bytes > 16) return std::nullopt;
    const auto bits = static_cast<std::uint8_t>(bytes * 8);
    switch (typestr[1]) {
        case 'f':
            return DlDataType{kDlFloat, bits, 1};
        case 'i':
            return DlDataType{kDlInt, bits, 1};
        case 'u':
            return DlDataType{kDlUint, bits, 1};
        case 'b':
            return DlDataType{kDlBool, 8, 1};
        default:
            return std::nullopt;
    }
}

}  // namespace kiln::python
