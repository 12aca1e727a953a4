// SPDX-License-Identifier: Apache-2.0
//
// A kernel's parameters as options of the command line.
#pragma once

#include <kiln/template_set.h>

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/variables_map.hpp>
#include <string>
#include <vector>

namespace kiln::cli {

/// The type parameter that --dtype sets.
constexpr const char* kTypeParameter = "T";

/// BM gives "bm", PAD_A gives "pad-a".
std::string option_name(const std::string& parameter);

/// A value as it is written on a command line; for code also @FILE, a file that has it, and @FILE:SYMBOL or
/// @FILE:SYMBOL=BODY, LTO-IR. Throws VariantError; UsageError for a file that can't be read.
Value value_of(const Parameter& parameter, std::string_view written);

/// The kernels that have a parameter of this option name.
std::vector<std::string> kernels_with(const TemplateSet& templates, const std::string& option);

/// The parameters of one template as options.
class ParameterOptions {
  public:
    /// taken: names that other options have. A parameter of such a name is offered as "param-name".
    ParameterOptions(const Template& chosen, const std::vector<std::string>& taken);

    const boost::program_options::options_description& description() const { return description_; }
    /// "--bm, --bn and --bk", or "no parameters".
    std::string names_text(const std::string& dashes) const;
    /// The values of a list that the parameter of this option has; empty for others.
    std::vector<std::string> allowed(const std::string& option) const;
    /// The values that were given. Throws VariantError.
    Values values(const boost::program_options::variables_map& given) const;

  private:
    struct Entry {
        Parameter parameter;
        std::string option;
    };

    std::vector<Entry> entries_;
    boost::program_options::options_description description_;
};

}  // namespace kiln::cli
