// SPDX-License-Identifier: Apache-2.0
//
// One pass over the text that knows words, comments and literals: a declaration is what stands between two of ; { }.
#include "compile/host_entry.h"

#include <algorithm>

#include "base/characters.h"
#include "compile/compile_protocol.h"

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

bool opens_arguments(std::string_view text, std::size_t at) {
    for (;;) {
        at = std::min(text.find_first_not_of(" \t\r\n", at), text.size());
        const std::string_view rest = text.substr(at);
        if (rest.starts_with("/*"))
            at = behind(text, "*/", at + 2);
        else if (rest.starts_with("//"))
            at = std::min(text.find('\n', at), text.size());
        else
            return rest.starts_with('(');
    }
}

// What KILN_HOST_KERNEL of kiln/device_host.h writes, for a name with commas and for a kernel that is not the first.
std::string exported(const std::string& name, std::size_t number) {
    const std::string symbol = "kiln_host_kernel" + (number == 0 ? "" : "_" + std::to_string(number));
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
        end = at + 1;
        if (rest.starts_with("//")) {
            end = std::min(text.find('\n', at), text.size());
        } else if (rest.starts_with("/*")) {
            end = behind(text, "*/", at + 2);
        } else if (rest.front() == '"' || rest.front() == '\'') {
            end = behind_literal(text, at);
        } else if (is_identifier_part(rest.front())) {
            // Digit separators belong to the number: 1'000.
            const bool is_number = is_digit(rest.front());
            while (end < text.size() && (is_identifier_part(text[end]) || (is_number && text[end] == '\'')))
                ++end;
            const std::string_view word = text.substr(at, end - at);
            if (end < text.size() && text[end] == '"' && word.ends_with('R') && word.size() <= 3)
                end = behind_raw(text, end);
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

HostText host_text(const Source& source) {
    HostText result{source.text, {}};
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
