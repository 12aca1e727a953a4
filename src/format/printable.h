// SPDX-License-Identifier: Apache-2.0
//
// printable(): text for a terminal. Messages quote files, and a control character of a file would be a command to the
// terminal: it could colour what follows, clear the screen, or set the window's title.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

/// The text with control characters written as "\x1b", but for newlines and tabs: those below U+0020, U+007F, and those
/// from U+0080 to U+009F. Other UTF-8 stays; bytes that are not UTF-8 are written as "\xff".
std::string printable(std::string_view text);

}  // namespace kiln
