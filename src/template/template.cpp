// SPDX-License-Identifier: Apache-2.0
//
// Template: reading files, and making variants from values.
#include <kiln/error.h>
#include <kiln/template.h>

#include <algorithm>

#include "base/arch_facts.h"
#include "base/file.h"
#include "base/file_name.h"
#include "base/renamed_parameters.h"
#include "base/words.h"
#include "format/format.h"
#include "template/defaults.h"
#include "template/template_data.h"

namespace kiln {
namespace {

constexpr std::size_t kMostVariants = 1'000'000;
constexpr std::uint64_t kMostBytes = 64 << 20;  // of a template or a header

std::string text_of_file(const std::filesystem::path& path) {
    const auto fail = [&](const std::string& message) -> std::string {
        throw TemplateError(path.string(), 1, 1, message);
    };
    try {
        if (auto text = read_text_if_exists(path, kMostBytes)) return std::move(*text);
    } catch (const FileError& failure) {
        return fail("the template file can't be read: " + failure.reason());
    }
    return fail("there is no such template file");
}

/// A header below the template's directory; unreadable files count as missing.
std::optional<std::string> header_below(const std::filesystem::path& directory, const std::string& name) {
    const std::filesystem::path path = directory / name;
    try {
        return read_text_if_exists(path, kMostBytes);
    } catch (const FileError&) {
        return std::nullopt;
    }
}

/// An `arch` line restricts the backends whose architectures it names.
bool serves(const std::vector<std::string>& archs, Backend backend, std::string_view arch) {
    bool restricts = false;
    for (const std::string& word : archs) {
        if (backend_of_arch(word) != backend) continue;
        restricts = true;
        if (arch_word_means(word, arch)) return true;
    }
    return !restricts;
}

/// Throws VariantError when no variant at all may run on the template's target.
void check_target(const TemplateData& data) {
    if (!data.target) return;
    const FrontMatter& front_matter = data.content->front_matter;
    const Target& target = *data.target;
    if (std::ranges::find(front_matter.backends, target.backend) == front_matter.backends.end()) {
        std::vector<std::string> names;
        for (Backend backend : front_matter.backends) names.emplace_back(name(backend));
        throw VariantError(front_matter.kernel + " is written for " + join(names, " and ") + " only (" +
                               data.content->file + "); the target's backend is " +
                               std::string(name(target.backend)),
                           "backend " + join(names));
    }
    if (serves(front_matter.archs, target.backend, target.arch)) return;
    std::vector<std::string> archs;
    for (const std::string& arch : front_matter.archs)
        if (backend_of_arch(arch) == target.backend) archs.push_back(arch);
    std::string message = front_matter.kernel + " uses instructions that only " + join(archs, " and ") +
                          (archs.size() == 1 ? " has (" : " have (") + data.content->file +
                          "); the target is " + target.arch;
    for (const std::string& arch : archs)
        if (arch.starts_with(target.arch) && !arch.empty())
            message += ". Where the device is one, choose " + arch + ", which is " + target.arch +
                       " with its architecture-specific instructions";
    throw VariantError(message, "arch " + join(archs));
}

/// Whether there are more than `most`, legal or not, that agree with `fixed`.
bool has_more_combinations(const FrontMatter& front_matter, const FixedCodes& fixed, std::uint64_t most) {
    for (std::size_t i = 0; i < fixed.size(); ++i) {
        const std::uint64_t choices = fixed[i] ? 1 : choice_count(front_matter.parameters[i]);
        if (choices == 0 || choices > most) return true;
        most /= choices;
    }
    return false;
}

bool may_run(const TemplateData& data) {
    try {
        check_target(data);
        return true;
    } catch (const VariantError&) {
        return false;
    }
}

const std::string& text_of(const ExpressionPtr& expression) {
    static const std::string kNone;
    return expression ? expression->text() : kNone;
}

[[noreturn]] void fail_unknown(const FrontMatter& front_matter, std::string_view name) {
    const auto& constants = front_matter.constants.constants;
    if (const auto constant = std::ranges::find(constants, name, &Constant::name);
        constant != constants.end())
        throw VariantError(
            front_matter.kernel + ": " + constant->name + " is no parameter but a constant, " +
            constant->expression +
            (constant->uses.empty() ? "" : "; give a value to " + join(constant->uses, " or ")));
    const std::vector<std::string> names = parameter_names(front_matter.parameters);
    const std::string list = names.empty() ? "there are none at all" : "there are " + join(names);
    throw VariantError(front_matter.kernel + " has no parameter " + std::string(name) + "; " + list +
                       parameter_hint(front_matter.kernel, name, names));
}

/// The codes of the values that are given. Throws VariantError for an unknown name or a value not allowed.
FixedCodes fixed_codes(const FrontMatter& front_matter, const Values& values) {
    const std::vector<Parameter>& parameters = front_matter.parameters;
    FixedCodes codes(parameters.size());
    for (const auto& [name, value] : values) {
        const auto parameter = std::ranges::find(parameters, name, &Parameter::name);
        if (parameter == parameters.end()) fail_unknown(front_matter, name);
        try {
            // A number or boolean that comes from a file or another program may be text still.
            const bool is_text = value.is_type() && parameter->kind != ParameterKind::type;
            codes[static_cast<std::size_t>(parameter - parameters.begin())] =
                checked_code(*parameter, is_text ? parameter->parse(value.as_type()) : value);
        } catch (const VariantError& error) {
            throw VariantError(front_matter.kernel + ": " + error.what());
        }
    }
    return codes;
}

/// Those of code, which codes do not hold. The values have been checked.
Values given_code(const FrontMatter& front_matter, const Values& values) {
    Values code;
    for (const Parameter& parameter : front_matter.parameters) {
        if (parameter.kind != ParameterKind::code) continue;
        const auto given = values.find(parameter.name);
        if (given == values.end()) continue;
        const Value& value = given->second;
        code.emplace(parameter.name, value.is_code() ? value : parameter.parse(value.as_type()));
    }
    return code;
}

}  // namespace

Template Template::parse(std::string text, std::string file, std::vector<Header> headers) {
    const HeaderFinder find = [&](const std::string& name) -> std::optional<std::string> {
        const auto header = std::ranges::find(headers, name, &Header::name);
        if (header == headers.end()) return std::nullopt;
        return header->text;
    };
    auto content = std::make_shared<const TemplateContent>(std::move(text), std::move(file), find);
    return Template(std::make_shared<const TemplateData>(std::move(content), std::nullopt));
}

Template Template::load(const std::filesystem::path& path) {
    std::string text = text_of_file(path);
    const HeaderFinder find = [&](const std::string& name) { return header_below(path.parent_path(), name); };
    auto content = std::make_shared<const TemplateContent>(std::move(text), path.string(), find);
    return Template(std::make_shared<const TemplateData>(std::move(content), std::nullopt));
}

Template Template::for_target(const Target& target) const {
    return Template(std::make_shared<const TemplateData>(data_->content, target));
}

const std::string& Template::name() const { return data_->content->front_matter.kernel; }
const std::string& Template::summary() const { return data_->content->front_matter.summary; }
const std::string& Template::file() const { return data_->content->file; }
const std::vector<Parameter>& Template::parameters() const { return data_->content->front_matter.parameters; }
const std::vector<Constant>& Template::constants() const {
    return data_->content->front_matter.constants.constants;
}
const std::vector<Constraint>& Template::constraints() const { return data_->content->constraints; }
const std::vector<Backend>& Template::backends() const { return data_->content->front_matter.backends; }
const std::vector<std::string>& Template::archs() const { return data_->content->front_matter.archs; }
bool Template::runs_on(Backend backend, std::string_view arch) const {
    return std::ranges::find(backends(), backend) != backends().end() &&
           (arch.empty() || serves(archs(), backend, arch));
}
const std::vector<SizeArgument>& Template::sizes() const {
    return data_->content->front_matter.problem.sizes;
}
const std::string& Template::naive() const { return data_->content->front_matter.problem.naive; }
bool Template::is_reference() const { return data_->content->front_matter.is_reference; }
const std::vector<std::string>& Template::bound_parameters() const {
    return data_->content->front_matter.bound_parameters;
}
const std::optional<Target>& Template::target() const { return data_->target; }

const std::vector<TensorArgument>& Template::tensors() const {
    return data_->content->front_matter.problem.tensors;
}
const std::vector<TensorMapArgument>& Template::tensor_maps() const {
    return data_->content->front_matter.problem.tensor_maps;
}
const std::string& Template::flops() const { return text_of(data_->content->front_matter.problem.flops); }
const std::string& Template::bytes() const { return text_of(data_->content->front_matter.problem.bytes); }
const std::string& Template::dependent() const { return text_of(data_->content->front_matter.dependent); }
const std::vector<std::string>& Template::dependent_uses() const {
    return data_->content->front_matter.dependent_uses;
}
const ModelSearch& Template::model_search() const { return data_->content->front_matter.model.search; }
const std::string& Template::opt_level() const { return text_of(data_->content->front_matter.opt_level); }
bool Template::is_runnable() const { return data_->content->front_matter.problem.undeclared.empty(); }

const Parameter* Template::parameter(std::string_view name) const {
    const auto found = std::ranges::find(parameters(), name, &Parameter::name);
    return found == parameters().end() ? nullptr : &*found;
}

Variant Template::variant(const Values& values) const {
    const FrontMatter& front_matter = data_->content->front_matter;
    const FixedCodes given = fixed_codes(front_matter, values);
    check_target(*data_);
    const Codes codes = with_defaults(front_matter, given);
    if (const Rule* rule = data_->rules.first_violated(codes))
        throw VariantError(data_->rules.explain(*rule, codes, data_->content->file),
                           rule->constraint.expression);
    return Variant(VariantMaker(data_, given_code(front_matter, values)).make(codes));
}

Value Template::default_of(std::string_view parameter, const Values& given) const {
    const FrontMatter& front_matter = data_->content->front_matter;
    const std::vector<Parameter>& parameters = front_matter.parameters;
    FixedCodes codes = fixed_codes(front_matter, given);
    const auto found = std::ranges::find(parameters, parameter, &Parameter::name);
    if (found == parameters.end()) fail_unknown(front_matter, parameter);
    if (found->default_expression.empty()) return found->default_value;
    const auto index = static_cast<std::size_t>(found - parameters.begin());
    codes[index] = std::nullopt;
    return decode(*found, default_code(front_matter, index, codes));
}

std::vector<Variant> Template::variants(const Values& fixed) const {
    const FrontMatter& front_matter = data_->content->front_matter;
    const FixedCodes codes = fixed_codes(front_matter, fixed);
    std::vector<Variant> found;
    if (!may_run(*data_)) return found;
    if (has_more_combinations(front_matter, codes, kMostVariants)) {
        const std::optional<std::uint64_t> count = count_legal(front_matter, data_->rules, codes);
        if (!count || *count > kMostVariants)
            throw VariantError(
                formatted("{} has too many combinations to list ({} legal ones, and at most {} are listed); "
                          "fix the value of a parameter that has a wide range",
                          front_matter.kernel, count ? std::to_string(*count) : "more than can be counted",
                          kMostVariants));
    }
    VariantMaker maker(data_, given_code(front_matter, fixed));
    walk_legal(front_matter, data_->rules, codes, [&](const Codes& legal) {
        found.push_back(Variant(maker.make(legal)));
        return true;
    });
    return found;
}

std::optional<Variant> Template::first_variant(const Values& fixed) const {
    const FrontMatter& front_matter = data_->content->front_matter;
    const FixedCodes codes = fixed_codes(front_matter, fixed);
    std::optional<Variant> first;
    if (!may_run(*data_)) return first;
    VariantMaker maker(data_, given_code(front_matter, fixed));
    walk_legal(front_matter, data_->rules, codes, [&](const Codes& legal) {
        first = Variant(maker.make(legal));
        return false;
    });
    return first;
}

std::optional<std::uint64_t> Template::variant_count(const Values& fixed) const {
    const FrontMatter& front_matter = data_->content->front_matter;
    const FixedCodes codes = fixed_codes(front_matter, fixed);
    return may_run(*data_) ? count_legal(front_matter, data_->rules, codes) : 0;
}

}  // namespace kiln
