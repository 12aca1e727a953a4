// SPDX-License-Identifier: Apache-2.0
//
// Just enough of C++'s tokens to find a declaration: comments, preprocessor lines, and the insides of
// strings are passed over.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace kiln {

struct CppToken {
    enum class Kind { identifier, string, other };
    Kind kind;
    std::string_view text;  ///< a string with its quotes; `::` and `->` are one token, else one byte each
    std::size_t offset;
};

std::vector<CppToken> cpp_tokens(std::string_view text);

}  // namespace kiln
