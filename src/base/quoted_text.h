// SPDX-License-Identifier: Apache-2.0
//
// A text of several lines as one word: how code is written on command lines, in manifests, records and baselines.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kiln {

/// In quotes, with the escapes \" \\ \n and \x and two digits, so that it is ASCII without control characters.
std::string quoted_text(std::string_view text);

/// The text that quoted_text() gives this; nullopt for what is no such thing.
std::optional<std::string> unquoted_text(std::string_view quoted);

}  // namespace kiln
