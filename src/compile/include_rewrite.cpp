// SPDX-License-Identifier: Apache-2.0
#include "compile/include_rewrite.h"

#include <algorithm>
#include <cstddef>

#include "base/preprocessor_reader.h"
#include "compile/include_macros.h"

namespace kiln {

std::string name_of_nothing(std::string_view name) {
    std::string nothing = "no-include-directory-has/";
    for (const char c : name)
        if (is_of_path(c) && (c != '/' || nothing.back() != '/')) nothing += c;
    return nothing;
}

std::optional<std::string> rewritten(std::string_view text, const std::vector<Replacement>& replacements) {
    std::size_t copied = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
    if (copied == 0 && replacements.empty()) return std::nullopt;
    std::string result;
    for (const Replacement& one : replacements) {
        result.append(text, copied, one.begin - copied).append(one.text);
        const std::string_view replaced = text.substr(one.begin, one.end - one.begin);
        for (auto lines = std::ranges::count(replaced, '\n'); lines > 0; --lines) result += "\\\n";
        copied = one.end;
    }
    return result.append(text, copied);
}

}  // namespace kiln
