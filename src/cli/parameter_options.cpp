// SPDX-License-Identifier: Apache-2.0
//
// Creates options from a template's parameters.
#include "cli/parameter_options.h"

#include <kiln/error.h>
#include <kiln/files.h>

#include <algorithm>
#include <boost/program_options/value_semantic.hpp>

#include "cli/option_values.h"

namespace kiln::cli {
namespace {

namespace po = boost::program_options;

constexpr std::uint64_t kMostBytesOfCode =
    1 << 20;  // of a file; how much of it may be code is the library's rule

constexpr std::uint64_t kMostBytesOfLtoir = 64 << 20;

/// Options of jit-gemm set it: --dtype, or one of the same name.
bool has_own_option(const Parameter& parameter) {
    constexpr const char* kProblem[] = {"OUT", "ALPHA", "BIAS", "RESIDUAL", "BETA", "ACTIVATION"};
    return (parameter.kind == ParameterKind::type && parameter.name == kTypeParameter) ||
           std::ranges::find(kProblem, parameter.name) != std::end(kProblem);
}

}  // namespace

std::string option_name(const std::string& parameter) {
    std::string option = parameter;
    for (char& c : option) c = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return option;
}

Value value_of(const Parameter& parameter, std::string_view written) {
    if (parameter.kind != ParameterKind::code || !written.starts_with('@')) return parameter.parse(written);
    const std::string_view name = written.substr(1);
    const std::size_t colon = name.find(':');
    if (colon == name.npos) {
        constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // as some editors write it
        const std::string text = read_input(name, kMostBytesOfCode);
        return parameter.parse(
            std::string_view(text).substr(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0));
    }
    const std::string_view symbol = name.substr(colon + 1, name.find('=', colon) - colon - 1);
    const std::size_t body = colon + 1 + symbol.size() + 1;
    if (symbol.empty())
        throw UsageError(parameter.name + "=" + std::string(written) +
                         ": the name of the function is missing; write @FILE:SYMBOL for LTO-IR.");
    return Code::ltoir(read_input(name.substr(0, colon), kMostBytesOfLtoir), std::string(symbol),
                       body < name.size() ? std::string(name.substr(body)) : std::string());
}

std::vector<std::string> kernels_with(const TemplateSet& templates, const std::string& option) {
    std::vector<std::string> kernels;
    for (const Template& candidate : templates.all()) {
        if (candidate.is_reference()) continue;
        const auto& parameters = candidate.parameters();
        if (std::any_of(parameters.begin(), parameters.end(), [&](const Parameter& parameter) {
                return option_name(parameter.name) == option && parameter.name != kTypeParameter;
            }))
            kernels.push_back(candidate.name());
    }
    return kernels;
}

ParameterOptions::ParameterOptions(const Template& chosen, const std::vector<std::string>& taken)
    : description_("", 110) {
    std::vector<std::string> names = taken;
    for (const Parameter& parameter : chosen.parameters()) {
        if (has_own_option(parameter)) continue;
        std::string option = option_name(parameter.name);
        while (std::find(names.begin(), names.end(), option) != names.end()) option.insert(0, "param-");
        names.push_back(option);
        const std::string text = (parameter.text.empty() ? "" : parameter.text + ": ") +
                                 parameter.allowed_text() + " (" + parameter.default_text() + ")";
        description_.add_options()(option.c_str(), po::value<std::string>()->value_name(parameter.name),
                                   text.c_str());
        entries_.push_back({parameter, option});
    }
}

std::string ParameterOptions::names_text(const std::string& dashes) const {
    std::vector<std::string> names;
    for (const Entry& entry : entries_) names.push_back(dashes + entry.option);
    return names.empty() ? "no parameters" : enumerate(names, " and ");
}

std::vector<std::string> ParameterOptions::allowed(const std::string& option) const {
    std::vector<std::string> texts;
    for (const Entry& entry : entries_)
        if (entry.option == option)
            for (const Value& value : entry.parameter.allowed) texts.push_back(value.text());
    return texts;
}

Values ParameterOptions::values(const po::variables_map& given) const {
    Values values;
    for (const Entry& entry : entries_)
        if (given.count(entry.option) != 0)
            values.insert_or_assign(entry.parameter.name,
                                    value_of(entry.parameter, given[entry.option].as<std::string>()));
    return values;
}

}  // namespace kiln::cli
