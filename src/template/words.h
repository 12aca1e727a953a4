// SPDX-License-Identifier: Apache-2.0
//
// Words for messages: "did you mean", and lists.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// "; did you mean BM?" when one of the known words is near, else nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

/// The words with a separator between them.
std::string join(const std::vector<std::string>& words, std::string_view separator = ", ");

}  // namespace kiln
