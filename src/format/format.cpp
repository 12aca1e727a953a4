// SPDX-License-Identifier: Apache-2.0
//
// All that Kiln compiles of fmt.
#define FMT_HEADER_ONLY 1
#include "format/format.h"

#include <fmt/format.h>

namespace kiln {

std::string format_arguments(fmt::string_view pattern, fmt::format_args arguments) {
    return fmt::vformat(pattern, arguments);
}

}  // namespace kiln
