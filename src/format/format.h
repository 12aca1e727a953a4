// SPDX-License-Identifier: Apache-2.0
//
// formatted(): text with values in it, by fmt. Patterns are checked when this is compiled. fmt stays private to Kiln's
// build: its names lie in an inline namespace of Kiln's own, so that they never meet those of an application that has
// another release of fmt, or the same one with other settings; format.cpp alone compiles what formats.
#pragma once

#if defined(FMT_VERSION)
#error "format/format.h comes before fmt's headers, which it gives a namespace"
#endif
#define FMT_BEGIN_NAMESPACE \
    namespace fmt {         \
    inline namespace kiln_private {
#define FMT_END_NAMESPACE \
    }                     \
    }
#define FMT_ASSERT(condition, message) ((void)0)
// Without locales, long double and large tables.
#define FMT_STATIC_THOUSANDS_SEPARATOR ','
#define FMT_USE_LOCALE 0
#define FMT_USE_LONG_DOUBLE 0
#define FMT_OPTIMIZE_SIZE 1
#if __has_include(<fmt/base.h>)
#include <fmt/base.h>
#else
#include <fmt/core.h>
#endif

#include <string>

namespace kiln {

std::string format_arguments(fmt::string_view pattern, fmt::format_args arguments);

/// formatted("{} of {} blocks, {:.3g} us", done, all, time); a bool is "true" or "false".
template <typename... Arguments>
std::string formatted(fmt::format_string<Arguments...> pattern, Arguments&&... arguments) {
#if FMT_VERSION >= 110000
    return format_arguments(pattern.get(), fmt::make_format_args(arguments...));
#else
    return format_arguments(pattern, fmt::make_format_args(arguments...));
#endif
}

}  // namespace kiln
