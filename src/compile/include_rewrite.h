// SPDX-License-Identifier: Apache-2.0
//
// The text of a header with other names in its #include lines.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// What stands at [begin, end) becomes `text`.
struct Replacement {
    std::size_t begin = 0, end = 0;
    std::string text;
};

/// A name that no include directory has: "no-include-directory-has/NAME".
std::string name_of_nothing(std::string_view name);

/// The text with the replacements, which are in the order of the text and do not overlap. Lines keep their numbers. It has no byte
/// order mark, which a compiler that gets a line in front of it would not take. nullopt: the text stays as it is.
std::optional<std::string> rewritten(std::string_view text, const std::vector<Replacement>& replacements);

}  // namespace kiln
