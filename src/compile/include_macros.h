// SPDX-License-Identifier: Apache-2.0
//
// What macros make of the operand of an #include or of a question, as far as texts alone say that.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/characters.h"
#include "base/preprocessor_scan.h"

namespace kiln {

/// Absolute, with "..", or with what a compiler may read in another way: where it leads depends on more than names and include
/// directories.
bool leads_elsewhere(std::string_view name);

/// What the name of a header is made of.
constexpr bool is_of_path(char c) {
    return is_identifier_part(c) || c == '/' || c == '.' || c == '-' || c == '+';
}

/// The word that a text begins with; it may be empty.
std::string_view leading_word(std::string_view text);

/// The macros of all scans that were added, whatever conditions they stand under. The scans must stay where they are.
class IncludeMacros {
  public:
    void add(const PreprocessorScan& scan);

    /// Every operand, `"name"` or `<name>`, that the tokens may expand to: NAME, NAME(argument) of a macro whose value is
    /// `<dir/PARAMETER>`, `#PARAMETER` or OTHER(PARAMETER), `<NAME/x>`, `"name"`. nullopt where that is not sure: a
    /// definition is of another kind, there is none, an operand leads elsewhere, or there are more than 64.
    std::optional<std::set<std::string>> operands(std::string_view tokens);

  private:
    using Texts = std::optional<std::set<std::string>>;
    struct Argument {
        std::string_view parameter, value;
    };

    Texts operands_of(std::string_view tokens);
    Texts values_of_object(std::string_view name);
    Texts values_of_call(std::string_view name, std::string_view argument);
    Texts value_of_call(const MacroDefinition& definition, std::string_view argument);
    Texts angled(std::string_view inside, const Argument& argument = {});
    Texts expanded(std::string_view text, const Argument& argument = {});
    Texts expanded_word(std::string_view word, const Argument& argument);
    /// Counts one more.
    bool are_too_many();
    /// None where it is being expanded, since a macro is not expanded in itself.
    std::vector<const MacroDefinition*> definitions_of(std::string_view name);

    std::unordered_multimap<std::string_view, const MacroDefinition*> definitions_;
    std::vector<std::string_view> active_;  // whose values are being expanded
    std::size_t expansions_ = 0;
};

}  // namespace kiln
