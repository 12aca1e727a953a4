// SPDX-License-Identifier: Apache-2.0
//
// Parameters of Kiln's templates that once had another name, so that wisdom files with the old names still read and a
// message can say the new one. scripts/rename-parameters reads the table too, and renames them in files.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct RenamedParameter {
    std::string_view old_name, new_name;
    std::string_view templates;  ///< in which it was renamed, references included; a space behind each
};
std::span<const RenamedParameter> renamed_parameters();

/// Today's name of a template's parameter: `name` itself, unless that is an old name.
std::string_view current_parameter_name(std::string_view template_name, std::string_view name);

/// The end of a message about a parameter that a template does not have: "; DEPENDENT is now PDL", or
/// "; did you mean BM?", or nothing.
std::string parameter_hint(std::string_view template_name, std::string_view name,
                           const std::vector<std::string>& known);

}  // namespace kiln
