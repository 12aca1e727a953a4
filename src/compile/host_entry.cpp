// SPDX-License-Identifier: Apache-2.0
//
// One pass over the text that knows words, comments and literals: a declaration is what stands between two of ; { }.
#include "compile/host_entry.h"

#include <algorithm>

#include "base/characters.h"
#include "compile/compile_protocol.h"
#include "format/format.h"

namespace kiln {
namespace {

std::size_t behind(std::string_view text, std::string_view end, std::size_t from) {
    const std::size_t at = text.find(end, from);
    return at == std::string_view::npos ? text.size() : at + end.size();
}

// Behind the literal that begins with the quote at `at`.
std::size_t behind_literal(std::string_view text, std::size_t at) {
    for (std::size_t i = at + 1; i < text.size(); ++i) {
        if (text[i] == '\\')
            ++i;
        else if (text[i] == text[at] || text[i] == '\n')
            return i + 1;
    }
    return text.size();
}

// Behind R"delimiter( ... )delimiter", whose quote is at `at`.
std::size_t behind_raw(std::string_view text, std::size_t at) {
    const std::size_t open = text.find('(', at);
    if (open == std::string_view::npos) return text.size();
    return behind(text, ")" + std::string(text.substr(at + 1, open - at - 1)) + "\"", open);
}

// Behind the comment, literal, number, word or character at `at`.
std::size_t behind_token(std::string_view text, std::size_t at) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with("//")) return std::min(text.find('\n', at), text.size());
    if (rest.starts_with("/*")) return behind(text, "*/", at + 2);
    if (rest.front() == '"' || rest.front() == '\'') return behind_literal(text, at);
    std::size_t end = at + 1;
    if (!is_identifier_part(rest.front())) return end;
    // Digit separators belong to the number: 1'000.
    const bool is_number = is_digit(rest.front());
    while (end < text.size() && (is_identifier_part(text[end]) || (is_number && text[end] == '\''))) ++end;
    const std::string_view word = text.substr(at, end - at);
    if (end < text.size() && text[end] == '"' && word.ends_with('R') && word.size() <= 3)
        end = behind_raw(text, end);
    return end;
}

// Behind the blanks and comments at `at`.
std::size_t behind_blanks(std::string_view text, std::size_t at) {
    for (;;) {
        at = std::min(text.find_first_not_of(" \t\r\n", at), text.size());
        const std::string_view rest = text.substr(at);
        if (rest.starts_with("/*"))
            at = behind(text, "*/", at + 2);
        else if (rest.starts_with("//"))
            at = std::min(text.find('\n', at), text.size());
        else
            return at;
    }
}

bool opens_arguments(std::string_view text, std::size_t at) {
    return text.substr(behind_blanks(text, at)).starts_with('(');
}

bool is_alignment(std::string_view word) { return word == "alignas" || word == "__align__"; }

// Behind the parentheses that open at `at`, but for blanks and comments.
std::size_t behind_parentheses(std::string_view text, std::size_t at) {
    if (!opens_arguments(text, at)) return at;
    at = behind_blanks(text, at);
    int depth = 0;
    do {
        at = behind_token(text, at);
        depth += text[at - 1] == '(' ? 1 : text[at - 1] == ')' ? -1 : 0;
    } while (at < text.size() && depth > 0);
    return at;
}

// What KILN_HOST_KERNEL of kiln/device_host.h writes, for a name with commas and for a kernel that is not the first.
std::string exported(const std::string& name, std::size_t number) {
    const std::string symbol = "kiln_host_kernel" + (number == 0 ? "" : formatted("_{}", number));
    const std::string exports = "kiln_host::Export<decltype(" + name + ")>::";
    return "\nextern \"C\" {\nextern const kiln_host::Kernel " + symbol +
           " __attribute__((visibility(\"default\")));\nconst kiln_host::Kernel " + symbol +
           " = {kiln_host::kAbiVersion, " + exports + "count, " + exports + "bytes, " + exports + "run<" +
           name + ">, KILN_HOST_RECORD_PARTS};\n}\n";
}

}  // namespace

HostEntry with_host_entry(std::string_view text, std::string_view entry) {
    HostEntry result{{}, std::string(entry)};
    bool is_kernel = false;
    int depth = 0;  // of parentheses, in a declaration of a kernel: those of its attributes and arguments
    std::size_t end = 0;
    for (std::size_t at = 0; at < text.size(); at = end) {
        const std::string_view rest = text.substr(at);
        end = behind_token(text, at);
        if (is_identifier_part(rest.front())) {
            const std::string_view word = text.substr(at, end - at);
            if (word == "__global__") {
                is_kernel = true;
                depth = 0;
            }
            if (is_kernel && depth == 0 && word == entry && opens_arguments(text, end)) {
                result.text += kHostEntryPrefix;
                result.name = std::string(kHostEntryPrefix) + std::string(entry);
            }
        } else if (rest.front() == '(' || rest.front() == ')') {
            depth += rest.front() == '(' ? 1 : -1;
        } else if (rest.front() == ';' || rest.front() == '{' || rest.front() == '}') {
            is_kernel = false;
        }
        result.text += text.substr(at, end - at);
    }
    return result;
}

namespace {

// A declaration that begins with `extern` or `__shared__`, from there to its semicolon.
struct SharedDeclaration {
    std::string type, name, extents;  ///< "float", "tile", "[][4]"
    std::size_t end = 0;              ///< behind the semicolon
    bool is_shared = false;           ///< it is one of an array in dynamic shared memory
};

SharedDeclaration shared_declaration(std::string_view text, std::size_t at) {
    SharedDeclaration found;
    bool has_word = false, is_extern = false, in_extents = false;
    for (std::size_t end = at; at < text.size(); at = end) {
        end = behind_token(text, at);
        const std::string_view token = text.substr(at, end - at);
        if (token == ";") {
            found.end = end;
            if (found.type.ends_with(' ')) found.type.pop_back();
            found.is_shared = has_word && is_extern && in_extents && !found.type.empty();
            return found;
        }
        if (token == "{" || token == "}" || token.starts_with('"')) break;
        if (token == "__shared__") has_word = true;
        if (token == "extern") is_extern = true;
        if (token == "extern" || token == "__shared__" || token.starts_with("//") || token.starts_with("/*"))
            continue;
        if (is_alignment(token)) {  // dynamic shared memory is aligned to 1024 bytes
            end = behind_parentheses(text, end);
            continue;
        }
        in_extents = in_extents || token == "[";
        if (in_extents)
            found.extents += token;
        else if (is_identifier_start(token.front())) {
            found.type += found.name.empty() ? "" : found.name + " ";
            found.name = token;
        } else if (!is_blank(token.front()) && token != "\n") {
            found.type += found.name + std::string(token);
            found.name.clear();
        }
    }
    return {};
}

}  // namespace

std::string with_dynamic_shared(std::string_view text) {
    if (text.find("__shared__") == std::string_view::npos || text.find("extern") == std::string_view::npos)
        return std::string(text);
    std::string result;
    std::vector<bool> braces;  // of those open: whether it is one of a function, or within one
    bool is_scope = false;     // this declaration is of a namespace, a class or a linkage
    unsigned parentheses = 0;  // of those open: a class named within them is an argument's
    std::size_t end = 0;
    for (std::size_t at = 0; at < text.size(); at = end) {
        end = behind_token(text, at);
        const std::string_view token = text.substr(at, end - at);
        if (parentheses == 0 && (token == "namespace" || token == "class" || token == "struct" ||
                                 token == "union" || token == "\"C\"" || token == "\"C++\""))
            is_scope = true;
        if (token == "(") {
            is_scope = false;  // a function's arguments, whatever came before
            ++parentheses;
        }
        if (token == ")" && parentheses > 0) --parentheses;
        const bool in_function = !braces.empty() && braces.back();
        if (token == "{") braces.push_back(in_function || !is_scope);
        if (token == "}" && !braces.empty()) braces.pop_back();
        if (token == "{" || token == "}" || token == ";") is_scope = false;
        if (token == ";") parentheses = 0;  // where #if leaves more open than closed
        const SharedDeclaration found =
            token == "extern" || token == "__shared__" ? shared_declaration(text, at) : SharedDeclaration{};
        if (!found.is_shared) {
            result += token;
            continue;
        }
        end = found.end;
        if (in_function)
            result += "auto& " + found.name + " = *static_cast<" + found.type + "(*)" + found.extents +
                      ">(kiln_host::dynamic_shared_memory());";
        else
            result += "static_assert(false, \"on the host the dynamic shared memory " + found.name +
                      " must be declared in the function that uses it, as extern __shared__ " + found.type +
                      " " + found.name + found.extents + ", or as kiln::dynamic_shared<" + found.type +
                      ">()\");";
        const std::string_view declaration = text.substr(at, end - at);
        result.append(static_cast<std::size_t>(std::ranges::count(declaration, '\n')), '\n');
    }
    return result;
}

namespace {

bool is_blank_or_comment(std::string_view token) {
    return token == "\n" || token == "\r" || is_blank(token.front()) || token.starts_with("//") ||
           token.starts_with("/*");
}

// Empty, at the end, where there is none.
std::string_view next_word(std::string_view text, std::size_t at) {
    for (std::size_t end = at; at < text.size(); at = end) {
        end = behind_token(text, at);
        if (!is_blank_or_comment(text.substr(at, end - at))) return text.substr(at, end - at);
    }
    return text.substr(text.size());
}

// What is directly behind __shared__: alignments, which C++ wants at the declaration's start, and `static`, which it is.
struct BehindShared {
    std::string alignments;  ///< "alignas(16) "
    std::string rest;        ///< blanks and comments between them
    std::size_t end = 0;
};

BehindShared behind_shared(std::string_view text, std::size_t at) {
    BehindShared found;
    for (found.end = at;;) {
        const std::string_view word = next_word(text, found.end);
        if (!is_alignment(word) && word != "static") return found;
        const auto start = static_cast<std::size_t>(word.data() - text.data());
        found.rest += text.substr(found.end, start - found.end);
        found.end = start + word.size();
        if (word == "static") continue;
        found.end = behind_parentheses(text, found.end);
        found.alignments += std::string(text.substr(start, found.end - start)) + " ";
    }
}

// Before the name of an attribute or of a macro.
bool names_a_word(std::string_view before) {
    constexpr std::string_view kWords[] = {"(", ",", "define", "undef", "ifdef", "ifndef", "defined"};
    return std::ranges::find(kWords, before) != std::end(kWords);
}

// [[gnu::__noinline__]]
bool is_qualified(std::string_view before) {
    const std::size_t last = before.find_last_not_of(" \t\r\n");
    return last != before.npos && before.substr(0, last + 1).ends_with("::");
}

}  // namespace

std::string with_host_keywords(std::string_view text) {
    constexpr std::string_view kShared = "__shared__", kNoInline = "__noinline__";
    if (text.find(kShared) == std::string_view::npos && text.find(kNoInline) == std::string_view::npos)
        return std::string(text);
    std::string result;
    std::string_view before;  // neither blank nor comment
    std::size_t end = 0;
    for (std::size_t at = 0; at < text.size(); at = end) {
        end = behind_token(text, at);
        const std::string_view token = text.substr(at, end - at);
        if (token == "static" && next_word(text, end) == kShared) continue;
        if (token == kShared) {
            const BehindShared behind = behind_shared(text, end);
            result += behind.alignments + std::string(token) + behind.rest;
            end = behind.end;
            before = token;
            continue;
        }
        const bool is_keyword =
            token == kNoInline && !names_a_word(before) && !is_qualified(text.substr(0, at));
        result += is_keyword ? "KILN_HOST_NOINLINE" : token;
        if (!is_blank_or_comment(token)) before = token;
    }
    return result;
}

HostText host_text(const Source& source) {
    HostText result{with_host_keywords(with_dynamic_shared(source.text)), {}};
    std::string exports;
    for (const std::string& entry : all_entries(source)) {
        std::string name = entry;  // as C++ has it
        if (!is_name_expression(entry)) {
            HostEntry renamed = with_host_entry(result.text, entry);
            result.text = std::move(renamed.text);
            name = std::move(renamed.name);
        }
        const std::size_t number = result.entries.size();
        exports += number == 0 && !is_name_expression(entry) ? "\nKILN_HOST_KERNEL(" + name + ")\n"
                                                             : exported(name, number);
        result.entries.push_back(entry.substr(0, entry.find('<')));
    }
    result.text += exports;
    return result;
}

}  // namespace kiln
