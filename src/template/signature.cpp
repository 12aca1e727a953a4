// SPDX-License-Identifier: Apache-2.0
//
// Finds the kernel among the tokens of the body and splits its parameter list.
#include "template/signature.h"

#include <kiln/error.h>

#include <algorithm>

#include "format/format.h"
#include "template/cpp_lexer.h"
#include "template/type_words.h"

namespace kiln {
namespace {

using Tokens = std::vector<CppToken>;

constexpr std::string_view kBuiltinWords[] = {"void",  "bool",   "char",   "short",    "int",   "long",
                                              "float", "double", "signed", "unsigned", "const", "volatile"};
constexpr std::string_view kDroppedWords[] = {"__restrict__", "__restrict", "restrict", "__grid_constant__",
                                              "volatile",     "struct",     "class",    "enum",
                                              "typename"};
constexpr std::string_view kIntegerWords[] = {"signed", "unsigned", "char", "short", "int", "long"};

struct TypeAlias {
    std::string_view name, normalised;
};

// long and size_t are 8 bytes wherever CUDA and HIP run under Linux.
constexpr TypeAlias kAliases[] = {
    {"int8_t", "signed char"},
    {"uint8_t", "unsigned char"},
    {"int16_t", "short"},
    {"uint16_t", "unsigned short"},
    {"int32_t", "int"},
    {"uint32_t", "unsigned int"},
    {"int64_t", "long long"},
    {"uint64_t", "unsigned long long"},
    {"size_t", "unsigned long long"},
    {"ptrdiff_t", "long long"},
    {"uintptr_t", "unsigned long long"},
    {"intptr_t", "long long"},
};
// Numbers of objects that the application makes.
constexpr std::string_view kObjects[] = {"cudaTextureObject_t", "cudaSurfaceObject_t"};

template <class List>
bool is_one_of(std::string_view word, const List& list) {
    return std::ranges::find(list, word) != std::end(list);
}

/// The index of the bracket that closes the one at `open`; tokens.size() when none does.
std::size_t closing(const Tokens& tokens, std::size_t open) {
    int depth = 0;
    for (std::size_t i = open; i < tokens.size(); ++i) {
        const std::string_view text = tokens[i].text;
        if (text == "(" || text == "[" || text == "{") ++depth;
        if ((text == ")" || text == "]" || text == "}") && --depth == 0) return i;
    }
    return tokens.size();
}

/// Walks from `__global__` over void and attributes, be they words, words with arguments or [[...]], to
/// this name before a parameter list. Returns its index, tokens.size() when this declares another one.
std::size_t kernel_name(const Tokens& tokens, std::size_t global, std::string_view name) {
    for (std::size_t i = global + 1; i < tokens.size(); ++i) {
        const bool opens = i + 1 < tokens.size() && tokens[i + 1].text == "(";
        if (tokens[i].kind == CppToken::Kind::identifier) {
            if (opens && tokens[i].text == name) return i;
            if (opens) i = closing(tokens, i + 1);
        } else if (tokens[i].text == "[") {
            i = closing(tokens, i);
        } else if (tokens[i].kind != CppToken::Kind::string) {
            break;
        }
    }
    return tokens.size();
}

bool is_type_word(const std::string& token) {
    return is_identifier_start(token.front()) && token != "const" && !is_one_of(token, kDroppedWords);
}

/// Drops what says nothing about the type: attributes before it, and the default value behind the name.
void drop_decoration(std::vector<std::string>& tokens) {
    tokens.erase(std::ranges::find(tokens, "="), tokens.end());
    while (tokens.size() > 1 && tokens[0] == "[" && tokens[1] == "[") {
        const auto first = std::ranges::find(tokens, "]");
        if (tokens.end() - first < 2) return;
        tokens.erase(tokens.begin(), first + 2);
    }
}

Signature::Argument make_argument(std::vector<std::string> tokens) {
    drop_decoration(tokens);
    Signature::Argument argument;
    const auto bracket = std::ranges::find(tokens, "[");
    if (bracket != tokens.end()) {  // an array argument is a pointer
        auto name = bracket != tokens.begin() ? bracket - 1 : bracket;
        if (name != bracket && is_identifier_start(name->front()) && name != tokens.begin()) {
            argument.name = *name;
        } else {
            name = bracket;
        }
        tokens.erase(name, tokens.end());
        tokens.emplace_back("*");
    } else if (tokens.size() > 1 && is_type_word(tokens.back()) && !is_one_of(tokens.back(), kBuiltinWords) &&
               tokens[tokens.size() - 2] != "::" &&
               std::any_of(tokens.begin(), tokens.end() - 1,
                           [](const auto& token) { return is_type_word(token); })) {
        argument.name = std::move(tokens.back());
        tokens.pop_back();
    }
    argument.type = std::move(tokens);
    return argument;
}

std::vector<Signature::Argument> split_arguments(const Tokens& tokens, std::size_t open, std::size_t close) {
    std::vector<Signature::Argument> arguments;
    std::vector<std::string> current;
    int depth = 0;
    for (std::size_t i = open + 1; i < close; ++i) {
        const std::string_view text = tokens[i].text;
        if (text == "(" || text == "[" || text == "{" || text == "<") ++depth;
        if (text == ")" || text == "]" || text == "}" || text == ">") --depth;
        if (text == "," && depth == 0) {
            if (!current.empty()) arguments.push_back(make_argument(std::move(current)));
            current.clear();
        } else {
            current.emplace_back(text);
        }
    }
    if (!current.empty() && !(current.size() == 1 && current[0] == "void" && arguments.empty()))
        arguments.push_back(make_argument(std::move(current)));
    return arguments;
}

Location location_of(std::string_view text, std::size_t offset) {
    const std::string_view before = text.substr(0, offset);
    const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    return {static_cast<int>(std::ranges::count(before, '\n')) + 1,
            static_cast<int>(offset - line_start) + 1};
}

/// "unsigned long int" and similar, with the words in any order.
std::string integer_type(const std::vector<std::string>& words) {
    const auto count = [&](std::string_view word) { return std::ranges::count(words, word); };
    const bool is_unsigned = count("unsigned") > 0;
    if (count("char") > 0) return is_unsigned ? "unsigned char" : "signed char";
    const std::string size = count("short") > 0 ? "short" : count("long") > 0 ? "long long" : "int";
    return is_unsigned ? "unsigned " + size : size;
}

std::string written(const std::vector<std::string>& tokens) {
    std::string result;
    for (const std::string& token : tokens) {
        const bool words_meet =
            !result.empty() && is_identifier_part(result.back()) && is_identifier_part(token.front());
        if (words_meet || (!result.empty() && result.back() == ',')) result += ' ';
        result += token;
    }
    return result;
}

/// The type before the first *, without const and volatile.
std::string base_type(const std::vector<std::string>& words, const TypeNames& type_parameters) {
    if (!words.empty() &&
        std::ranges::all_of(words, [](const auto& word) { return is_one_of(word, kIntegerWords); }))
        return integer_type(words);
    if (words.size() != 1) return written(words);
    if (const auto found = type_parameters.find(words[0]); found != type_parameters.end())
        return found->second;
    if (const std::string_view type = type_of_word(words[0]); !type.empty()) return std::string(type);
    if (is_one_of(words[0], kObjects)) return "unsigned long long";
    const auto alias = std::ranges::find(kAliases, words[0], &TypeAlias::name);
    return alias == std::end(kAliases) ? words[0] : std::string(alias->normalised);
}

/// The names of the parameters in template <...>, whose < is at `open`.
std::vector<std::string> template_parameters(const Tokens& tokens, std::size_t open) {
    std::vector<std::string> names;
    std::string last;  // the word before a comma, an = or the end
    bool has_default = false;
    int depth = 0;
    for (std::size_t i = open; i < tokens.size(); ++i) {
        const std::string_view text = tokens[i].text;
        const bool ends = text == ">" && depth == 1;
        if ((text == "," && depth == 1) || ends) {
            names.push_back(last);
            has_default = false;
            if (ends) break;
        } else if (text == "<" || text == "(") {
            ++depth;
        } else if (text == ">" || text == ")") {
            --depth;
        } else if (text == "=" && depth == 1) {
            has_default = true;
        } else if (!has_default && depth == 1 && tokens[i].kind == CppToken::Kind::identifier) {
            last = text;
        }
    }
    return names;
}

/// The type's tokens with the parameters replaced by what they stand for.
std::vector<std::string> with_arguments(const std::vector<std::string>& type,
                                        const std::vector<std::string>& parameters,
                                        const std::vector<std::string>& arguments) {
    std::vector<std::string> replaced;
    for (const std::string& token : type) {
        const auto at = static_cast<std::size_t>(std::ranges::find(parameters, token) - parameters.begin());
        if (at >= arguments.size()) {
            replaced.push_back(token);
            continue;
        }
        for (const CppToken& one : cpp_tokens(arguments[at])) replaced.emplace_back(one.text);
    }
    return replaced;
}

}  // namespace

std::optional<Signature> find_kernel(std::string_view text, const KernelName& name, const std::string& file) {
    const Tokens tokens = cpp_tokens(text);
    std::vector<bool> braces;  // of those open: whether it is one of extern "C"
    bool statement_is_extern_c = false;
    std::size_t template_head = tokens.size();  // of this statement: its word `template`
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const std::string_view token = tokens[i].text;
        // Most tokens are none of those that matter here.
        if (std::string_view("et{};_").find(token.front()) == std::string_view::npos) continue;
        if (token == "extern" && i + 1 < tokens.size() && tokens[i + 1].text == "\"C\"")
            statement_is_extern_c = true;
        if (token == "template" && i + 1 < tokens.size() && tokens[i + 1].text == "<") template_head = i;
        if (token == "{") braces.push_back(statement_is_extern_c && tokens[i - 1].text == "\"C\"");
        if (token == "}" && !braces.empty()) braces.pop_back();
        if (token == "{" || token == "}" || token == ";") {
            statement_is_extern_c = false;
            template_head = tokens.size();
        }
        if (token != "__global__") continue;

        const std::size_t found = kernel_name(tokens, i, name.name);
        if (found == tokens.size()) continue;
        const std::size_t close = closing(tokens, found + 1);
        const bool is_definition = close + 1 < tokens.size() && tokens[close + 1].text != ";";
        if (!is_definition) continue;
        const Location location = location_of(text, tokens[found].offset);
        const auto fail = [&](const std::string& message) {
            throw TemplateError(file, location.line, location.column, message);
        };
        Signature signature{location, split_arguments(tokens, found + 1, close)};
        const bool is_template = template_head != tokens.size();
        if (is_template && !name.is_template())
            fail("the kernel " + name.name +
                 " is a template; the `kernel` line gives its arguments, as in //@ kernel " + name.name +
                 "<T, BLOCK>");
        if (!is_template && name.is_template())
            fail("the kernel " + name.name + " is no template, and the `kernel` line gives it arguments");
        if (is_template) {
            const auto parameters = template_parameters(tokens, template_head + 1);
            if (parameters.size() < name.arguments.size())
                fail(formatted("the template {} has {} parameters, and the `kernel` line gives {}", name.name,
                               parameters.size(), name.arguments.size()));
            for (Signature::Argument& argument : signature.arguments)
                argument.type = with_arguments(argument.type, parameters, name.arguments);
        } else if (!statement_is_extern_c && std::ranges::find(braces, true) == braces.end()) {
            fail("the kernel " + name.name +
                 " must be declared extern \"C\", since it is looked up by its plain name");
        }
        return signature;
    }
    return std::nullopt;
}

std::optional<std::vector<std::string>> find_module_variable(std::string_view text, std::string_view name) {
    constexpr std::string_view kNoType[] = {"static",    "inline",     "extern",       "const",
                                            "constexpr", "__device__", "__constant__", "volatile"};
    constexpr std::string_view kBehindName[] = {"[", "=", ";", ",", "{"};
    if (text.find(name) == std::string_view::npos) return std::nullopt;
    const Tokens tokens = cpp_tokens(text);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i].text != "__constant__" && tokens[i].text != "__device__") continue;
        std::vector<std::string> type;
        bool has_name = false;  // of its first variable; then the type is complete
        int depth = 0;
        for (++i; i < tokens.size(); ++i) {
            const std::string_view token = tokens[i].text;
            const std::string_view next = i + 1 < tokens.size() ? tokens[i + 1].text : ";";
            if (token == "alignas" || token == "__align__") {
                i = closing(tokens, i + 1);
                continue;
            }
            if (depth == 0 && (token == ";" || token == "(")) break;  // its end, or a function
            const bool is_name = depth == 0 && tokens[i].kind == CppToken::Kind::identifier &&
                                 is_one_of(next, kBehindName) && !is_one_of(token, kNoType);
            if (is_name && (has_name || !type.empty())) {
                has_name = true;
                if (token == name) return type;
            }
            if (!has_name && !is_one_of(token, kNoType)) type.emplace_back(token);
            if (token == "[" || token == "{" || token == "<" || token == "(") ++depth;
            if (token == "]" || token == "}" || token == ">" || token == ")") --depth;
        }
    }
    return std::nullopt;
}

std::string normalised_type(const std::vector<std::string>& tokens, const TypeNames& type_parameters) {
    std::vector<std::string> words;  // of the base type
    std::vector<bool> levels;        // of the pointers: whether each is itself const
    bool base_is_const = false;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const std::string& token = tokens[i];
        const bool qualifies = i + 1 < tokens.size() && tokens[i + 1] == "::";
        if (is_one_of(token, kDroppedWords)) continue;
        if (qualifies && (token == "kiln" || token == "std")) {
            ++i;
        } else if (token == "::" && words.empty()) {
            continue;
        } else if (token == "const") {
            if (levels.empty())
                base_is_const = true;
            else
                levels.back() = true;
        } else if (token == "*" && std::ranges::count(words, "<") == std::ranges::count(words, ">")) {
            levels.push_back(false);
        } else {
            words.push_back(token);
        }
    }
    std::string result = base_type(words, type_parameters);
    if (!levels.empty() && base_is_const) result = "const " + result;
    for (std::size_t i = 0; i < levels.size(); ++i) {
        result += '*';
        // The outermost const says nothing about how the argument is passed.
        if (levels[i] && i + 1 < levels.size()) result += " const";
    }
    return result;
}

bool is_texture_or_surface(const std::vector<std::string>& type) {
    return std::ranges::any_of(type, [](const std::string& word) { return is_one_of(word, kObjects); });
}

std::optional<ArgumentFormat> argument_format(std::string_view normalised) {
    constexpr struct {
        std::string_view type;
        ArgumentFormat format;
    } kFormats[] = {
        {"int", ArgumentFormat::i32},        {"unsigned int", ArgumentFormat::u32},
        {"long long", ArgumentFormat::i64},  {"unsigned long long", ArgumentFormat::u64},
        {"short", ArgumentFormat::i16},      {"unsigned short", ArgumentFormat::u16},
        {"signed char", ArgumentFormat::i8}, {"unsigned char", ArgumentFormat::u8},
        {"bool", ArgumentFormat::boolean},
    };
    for (const auto& known : kFormats)
        if (known.type == normalised) return known.format;
    return std::nullopt;
}

}  // namespace kiln
