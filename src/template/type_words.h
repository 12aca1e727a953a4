// SPDX-License-Identifier: Apache-2.0
//
// The names that other code has for kiln::half and kiln::bfloat16: half, __half, __nv_bfloat16 and the like. A template
// may use them without kiln::, unless it, a header of its own or the vendor's header declares them itself.
#pragma once

#include <kiln/build.h>

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct TypeWord {
    std::string_view word;  ///< "__half"
    std::string_view type;  ///< of the prelude, and normalised: "half"
};

/// The type that a word means; empty for others.
std::string_view type_of_word(std::string_view word);

/// The declarations of those words that these texts use and do not declare, in front of the template's text; empty
/// when there are none, as in all built-in templates.
std::string type_word_declarations(std::string_view text, const std::vector<Header>& own_headers);

}  // namespace kiln
