// SPDX-License-Identifier: Apache-2.0
//
// Edit distance by dynamic programming over three rows.
#include "base/words.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace kiln {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
    const auto same = [](char x, char y) {
        return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
    };
    std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        before.swap(last);
        last.swap(row);
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);
            row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
    }
    return row.back();
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
    std::optional<std::string> best;
    std::size_t best_distance = 0;
    for (const auto& candidate : known) {
        const std::size_t distance = edit_distance(word, candidate);
        const std::size_t allowed = std::max<std::size_t>(1, candidate.size() / 3);
        if (distance > allowed || (best && distance >= best_distance)) continue;
        best = candidate;
        best_distance = distance;
    }
    return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
    if (word.size() < 2) return {};  // every other single letter is one edit away
    const auto found = nearest(word, known);
    return found ? "; did you mean " + *found + "?" : std::string();
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
    std::string text;
    for (const std::string& word : words) {
        if (!text.empty()) text += separator;
        text += word;
    }
    return text;
}

std::string enumerate(const std::vector<std::string>& words) {
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (i != 0) text += i + 1 == words.size() ? " and " : ", ";
        text += words[i];
    }
    return text;
}

}  // namespace kiln
