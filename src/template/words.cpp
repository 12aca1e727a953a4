// SPDX-License-Identifier: Apache-2.0
//
// Built on base/nearest.h.
#include "template/words.h"

#include "base/nearest.h"

namespace kiln {

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
    if (word.size() < 2) return {};  // every other single letter is one edit away
    const auto found = nearest(word, known);
    return found ? "; did you mean " + *found + "?" : std::string();
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
    std::string result;
    for (const std::string& word : words) {
        if (!result.empty()) result += separator;
        result += word;
    }
    return result;
}

}  // namespace kiln
