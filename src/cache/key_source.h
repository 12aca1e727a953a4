// SPDX-License-Identifier: Apache-2.0
//
// Takes a specialised source apart again: the constants and functions that were put before the template, and the template.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct KeyConstant {
    std::string_view name;
    std::string value;  ///< as a person writes it: "64", "true", "half", "\"return x;\""

    bool operator==(const KeyConstant&) const = default;
};

struct KeySource {
    std::vector<KeyConstant> constants;
    std::string_view body;  ///< what follows `#line 1 "..."`; the whole text when it has no such head
};

/// All constants and functions before the template, and nothing else of what stands there.
std::vector<KeyConstant> source_constants(std::string_view text);

/// Views into the text.
KeySource split_source(std::string_view text);

}  // namespace kiln
