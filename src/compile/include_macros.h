// SPDX-License-Identifier: Apache-2.0
//
// What macros make of the operand of an #include, as far as texts alone say that.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compile/include_lines.h"

namespace kiln {

/// Absolute, or with "..": where it leads depends on more than names and include directories.
bool leads_elsewhere(std::string_view name);

/// The macros of all texts that were added, whatever conditions they stand under. Views are of those texts, which must stay.
class IncludeMacros {
  public:
    void add(const IncludeScan& scan);

    /// What the macro may be, with the macros in it replaced: 64 values at most.
    std::set<std::string> values_of(std::string_view macro);
    /// The names, without brackets, that NAME(argument) may be. Empty where that is not sure or one leads elsewhere.
    std::set<std::string> values_of_call(const IncludeLine& line);
    /// A call that the macro, or one that it stands for, is defined as, if its text has a path that leads elsewhere. What a call makes
    /// is not followed, but a compiler would read it.
    std::optional<std::string> call_that_leads_elsewhere(std::string_view macro);

  private:
    std::set<std::string> values_of(std::string_view macro, int nesting);
    std::vector<std::string> expanded(std::string_view text, int nesting,
                                      const std::pair<std::string_view, std::string_view>& parameter = {});

    std::map<std::string_view, std::set<std::string_view>> macros_;
    std::unordered_multimap<std::string_view, std::string_view> calls_;
    std::map<std::string_view, std::set<std::pair<std::string_view, std::string_view>>> functions_;
    std::size_t expansions_ = 0;
};

}  // namespace kiln
