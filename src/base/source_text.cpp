// SPDX-License-Identifier: Apache-2.0
//
// A function of the caller ends in a line of its own, too. What tells the template's #line from it is the line before:
// the head of a function, which ends in its brace. Code has no preprocessor lines.
#include <kiln/build.h>

namespace kiln {
inline namespace KILN_ABI {

std::size_t own_text_begin(std::string_view source) {
    constexpr std::string_view kLine = "#line 1 \"", kHead = "{\n";
    std::size_t at = source.find(kLine);
    while (at != source.npos && source.substr(0, at).ends_with(kHead)) {
        at = source.find("\n" + std::string(kLine), at);
        if (at != source.npos) ++at;
    }
    return at;
}

}  // namespace KILN_ABI
}  // namespace kiln
