// SPDX-License-Identifier: Apache-2.0
//
// The #include lines of a third party's header, found without a preprocessor: branches that are not taken and
// comments count too, which gives a compiler a header too many and never one too few.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

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
    std::string_view name;       ///< without them
    IncludeForm form = IncludeForm::quoted;

    bool is_question() const { return directive.front() == '_'; }
    bool is_next() const { return directive.ends_with("_next"); }
};

struct IncludeScan {
    std::vector<IncludeLine> lines;  ///< in the order of the text, questions behind the others
    /// Macros without arguments whose value may be the operand of an #include or a part of it: `"a.h"`, `<a.h>`,
    /// `dir/part`, `NAME`.
    std::vector<std::pair<std::string_view, std::string_view>> macros;
};

IncludeScan scan_includes(std::string_view text);

}  // namespace kiln
