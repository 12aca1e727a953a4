// SPDX-License-Identifier: Apache-2.0
//
// The headers that a template may reach through #include "...": found once, when it is parsed, so that
// every one is known, hashed, and handed to the compilers in memory.
#pragma once

#include <kiln/build.h>
#include <kiln/types.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/include_check.h"

namespace kiln {

/// Gives the text of a user's header, nullopt when there is none of that name.
using HeaderFinder = std::function<std::optional<std::string>(const std::string& name)>;

/// Immutable once made.
class Includes {
  public:
    Includes() = default;
    /// Everything that `text` includes, transitively, and the prelude's kiln/device.h. A name is looked for
    /// by `find` first, then in the prelude; what neither has is open(). `file` is the text's name
    /// in messages. Throws TemplateError for names that lead past all of that (base/include_check.h).
    Includes(std::string_view text, const std::string& file, const HeaderFinder& find);

    /// The headers for one backend, ordered by name.
    std::vector<Header> headers(Backend backend) const;
    /// What is named and not found, as written and in a fixed order: `<cub/cub.cuh>`.
    std::vector<std::string> open(Backend backend) const;
    /// The user's own, ordered by name: what makes two templates with the same text differ.
    std::vector<Header> own_headers() const;

  private:
    struct Entry {
        std::optional<std::string> own;  // else it is the prelude's, which is part of the library
        std::string_view prelude;
        std::vector<IncludedName> includes;

        std::string_view text() const { return own ? *own : prelude; }
    };
    /// The names of the entries that a backend reaches.
    std::set<std::string_view> reached(Backend backend) const;

    std::vector<IncludedName> roots_;
    std::map<std::string, Entry, std::less<>> entries_;
};

/// The names in the #include "..." lines of a text of the prelude, in their order: a quick scan for lines that
/// begin so.
std::vector<std::string> included_names(std::string_view text);

}  // namespace kiln
