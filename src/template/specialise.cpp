// SPDX-License-Identifier: Apache-2.0
//
// The prologue is the same for every backend; the differences are in the prelude.
#include "template/specialise.h"

#include <bit>
#include <cstdint>
#include <filesystem>
#include <limits>

#include "format/format.h"
#include "template/code_text.h"
#include "template/element_type.h"

namespace kiln {
namespace {

std::string integer_constant(const std::string& name, std::int64_t value) {
    using Int = std::numeric_limits<int>;
    if (value >= Int::min() && value <= Int::max()) return formatted("constexpr int {} = {}", name, value);
    const std::string type = "constexpr long long " + name + " = ";
    // The smallest value has no literal: its minus applies to a number that is one too large.
    if (value == std::numeric_limits<std::int64_t>::min()) return formatted("{}{} - 1", type, value + 1);
    return formatted("{}{}", type, value);
}

std::string boolean_constant(const std::string& name, std::int64_t value) {
    return "constexpr bool " + name + " = " + (value != 0 ? "true" : "false");
}

/// Exactly, in hexadecimal: "0x1.8p-1f". Written out of the bits, since what printf and to_chars give for a denormal
/// differs from one C library to the next, and this text is part of the key.
std::string float_literal(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const int exponent = static_cast<int>(bits >> 23 & 0xff);
    std::uint32_t fraction = (bits & 0x7fffff) << 1;  // six hexadecimal digits behind the point
    std::string text = bits >> 31 ? "-0x" : "0x";
    text += exponent == 0 ? '0' : '1';
    if (fraction != 0) text += '.';
    for (; fraction != 0; fraction = fraction << 4 & 0xffffff) text += "0123456789abcdef"[fraction >> 20];
    const int power = exponent != 0 ? exponent - 127 : (bits & 0x7fffff) != 0 ? -126 : 0;
    return formatted("{}p{}{}f", text, power < 0 ? "" : "+", power);
}

std::string declaration(const Parameter& parameter, std::int64_t code) {
    switch (parameter.kind) {
        case ParameterKind::integer:
            break;
        case ParameterKind::boolean:
            return boolean_constant(parameter.name, code);
        case ParameterKind::type:
            return "using " + parameter.name + " = " +
                   std::string(element_types()[static_cast<std::size_t>(code)].spelling);
        case ParameterKind::real:
            return "constexpr float " + parameter.name + " = " +
                   float_literal(decode(parameter, code).as_float());
        case ParameterKind::code:
            break;  // a function, behind the constants that it may use
    }
    return integer_constant(parameter.name, code);
}

/// As the inside of a string literal.
std::string escaped(const std::string& file_name) {
    std::string result;
    for (char c : file_name) {
        if (c == '"' || c == '\\') result += '\\';
        result += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
    return result;
}

/// A line of its own says where errors in the caller's text are: "gemm_mma.EPILOGUE:1". The type comes last, since it may
/// depend on the arguments. links: a function of LTO-IR is called, not its body.
std::string function(const std::string& kernel, const Parameter& parameter, const Code& code, bool links) {
    const bool is_linked = links && code.is_ltoir();
    const std::string type =
        parameter.signature + (parameter.result == "auto" ? "" : " -> " + parameter.result);
    std::string text;
    if (is_linked) text = "extern \"C\" __device__ auto " + code.symbol() + type + ";\n";
    text += "static __device__ __forceinline__ auto " + parameter.name + type + " {\n#line 1 \"" + kernel +
            "." + parameter.name + "\"\n";
    if (is_linked)
        text += "return " + code.symbol() + "(" + argument_names(parameter.signature).value_or("") + ");";
    else
        text += code.body();
    return text + "\n}\n";
}

/// Its name where the template is no file.
std::string path_of(const TemplateContent& content) {
    std::error_code error;
    const auto path = std::filesystem::canonical(content.file, error);
    return error ? content.file_name : path.string();
}

}  // namespace

std::string specialised_text(const TemplateContent& content, const Codes& codes, const Values& values,
                             bool links, bool real_path) {
    std::string text = "#include \"kiln/device.h\"\n";
    const std::vector<Parameter>& parameters = content.front_matter.parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i)
        if (parameters[i].kind != ParameterKind::code) text += declaration(parameters[i], codes[i]) + ";\n";
    const ConstantLines& lines = content.front_matter.constants;
    for (std::size_t i = 0; i < lines.values.size(); ++i) {
        Failure never;  // the implicit rules have seen to it
        const std::int64_t value = lines.values[i]->evaluate({codes, nullptr, nullptr}, never);
        const Constant& constant = lines.constants[i];
        text += (constant.is_bool ? boolean_constant(constant.name, value)
                                  : integer_constant(constant.name, value)) +
                ";\n";
    }
    text += content.type_words;
    for (const Parameter& parameter : parameters)
        if (parameter.kind == ParameterKind::code)
            text += function(content.front_matter.kernel, parameter,
                             values.find(parameter.name)->second.as_code(), links);
    text += "#line 1 \"" + escaped(real_path ? path_of(content) : content.file_name) + "\"\n";
    return text + content.text;
}

}  // namespace kiln
