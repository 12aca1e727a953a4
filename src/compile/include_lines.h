// SPDX-License-Identifier: Apache-2.0
//
// The #include lines of a third party's header, found without a preprocessor: branches that are not taken and
// comments count too, which gives a compiler a header too many and never one too few.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "base/characters.h"

namespace kiln {

enum class IncludeForm {
    quoted,  ///< "name"
    angled,  ///< <name>
    macro,   ///< NAME, of a macro
    call     ///< NAME(...), of a macro with arguments
};

/// All views are into the text that was scanned. The operand of a call is all of it, the parentheses included.
struct IncludeLine {
    std::string_view directive;  ///< "include", "include_next", "__has_include" or "__has_include_next"
    std::string_view operand;    ///< with its quotes or brackets
    std::string_view name;       ///< without them; of a macro its name
    IncludeForm form = IncludeForm::quoted;
    std::string_view argument = {};  ///< of a call: what stands between the parentheses

    bool is_question() const { return directive.front() == '_'; }
    bool is_next() const { return directive.ends_with("_next"); }
};

/// A macro with arguments: `#define NAME(parameter) <dir/parameter>`.
struct IncludeFunction {
    std::string_view name;
    std::string_view parameter;  ///< empty for another number than one
    std::string_view value;      ///< `<...>`; empty for anything else
};

struct IncludeScan {
    std::vector<IncludeLine> lines;  ///< in the order of the text, questions behind the others
    /// Macros without arguments whose value may be the operand of an #include or a part of it: `"a.h"`, `<a.h>`,
    /// `dir/part`, `NAME`.
    std::vector<std::pair<std::string_view, std::string_view>> macros;
    /// Macros without arguments whose value is a call of another one: `NAME(...)`.
    std::vector<std::pair<std::string_view, std::string_view>> calls;
    std::vector<IncludeFunction> functions;
};

IncludeScan scan_includes(std::string_view text);

/// What the name of a header is made of.
constexpr bool is_of_path(char c) {
    return is_identifier_part(c) || c == '/' || c == '.' || c == '-' || c == '+';
}

}  // namespace kiln
