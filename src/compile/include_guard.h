// SPDX-License-Identifier: Apache-2.0
//
// Where a header's include guard ends. A compiler does not open a header again that is guarded as a whole: that saves a tenth
// of the time of a template with CCCL's headers, and is lost where a directive, such as #line, stands in front of the guard.
#pragma once

#include <cstddef>
#include <string_view>

namespace kiln {

/// The offset of the line behind `#pragma once`, or behind `#ifndef G` and `#define G` whose #endif ends the text. Only
/// comments are in front of it. 0: there is no such guard.
std::size_t include_guard_end(std::string_view text);

}  // namespace kiln
