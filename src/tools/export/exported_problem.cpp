// SPDX-License-Identifier: Apache-2.0
#include "export/exported_problem.h"

#include <kiln/error.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/arch_facts.h"
#include "base/words.h"
#include "format/format.h"
#include "template/template_data.h"

namespace kiln {
namespace {

/// How C passes an argument.
std::optional<std::string> c_type(const std::string& type) {
    if (type.ends_with('*')) return type.starts_with("const ") ? "const void*" : "void*";
    for (const char* same : {"int", "unsigned int", "long long", "unsigned long long", "short",
                             "unsigned short", "signed char", "unsigned char", "float", "double"})
        if (type == same) return same;
    if (type == "bool") return "bool";
    return std::nullopt;
}

/// Names of exported code begin so, those that a template must not have.
constexpr std::string_view kOwnNames = "kiln_";

/// C++ takes them for names, and C or its headers do not: macros of GNU compilers, of <errno.h> and <stdio.h>, keywords.
constexpr std::string_view kNoNamesInC[] = {"linux",    "unix",   "i386",     "errno",      "stdin",
                                            "stdout",   "stderr", "_Complex", "_Imaginary", "_Atomic",
                                            "_Generic", "_Bool",  "_Noreturn"};

std::string as_identifier(std::string text) {
    for (char& c : text)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    return text;
}

/// Those that a device prefers come first: sm_90a, sm_90, sm_80, and PTX behind all binaries.
auto preference(const Target& target, BinaryKind kind) {
    const int number = cuda_arch_number(target.arch).value_or(0);
    const int suffix = target.arch.ends_with('a') ? 0 : target.arch.ends_with('f') ? 1 : 2;
    return std::tuple(target.backend, kind == BinaryKind::ptx, -number, suffix, target.arch);
}

/// The parameters whose values say what is computed. Where an output has no reference, nothing tells which
/// they are: all do.
std::vector<std::string> computing_parameters(const Service& service, const Template& of) {
    const bool all = !of.is_runnable() || std::ranges::any_of(of.tensors(), [](const TensorArgument& tensor) {
        return (tensor.role == TensorRole::output || tensor.role == TensorRole::inout) &&
               tensor.reference.empty();
    });
    std::vector<std::string> names;
    if (!all) names = problem_parameters(service, of);
    for (const Parameter& parameter : of.parameters())  // wisdom holds for any code, and results don't
        if (all || parameter.kind == ParameterKind::code) names.push_back(parameter.name);
    return names;
}

}  // namespace

std::vector<ExportedProblem> exported_problems(const Service& service,
                                               std::span<const ExportedVariant> variants) {
    const Template of = variants.front().variant.origin();
    const std::vector<std::string> parameters = computing_parameters(service, of);
    std::vector<ExportedProblem> problems;
    for (const ExportedVariant& one : variants) {
        std::vector<std::pair<std::string, std::string>> values;
        for (const std::string& name : parameters) values.emplace_back(name, one.variant.value(name).text());
        auto found = std::ranges::find(problems, values, &ExportedProblem::values);
        if (found == problems.end()) {
            problems.push_back({values, {}, {}});
            found = std::prev(problems.end());
        }
        found->variants.push_back(&one);
    }
    std::map<std::string, int> names;
    // Of code its number among those of the parameter.
    std::map<std::pair<std::string, std::string>, std::string> codes;
    std::map<std::string, int> code_counts;
    const auto name_of = [&](const std::string& parameter, const std::string& value) {
        if (of.parameter(parameter)->kind != ParameterKind::code)
            return as_identifier(parameter + "_" + value);
        const auto [place, is_new] = codes.try_emplace({parameter, value});
        if (is_new) place->second = formatted("{}_{}", parameter, ++code_counts[parameter]);
        return place->second;
    };
    for (ExportedProblem& problem : problems) {
        problem.name = "kiln_" + of.name();
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            const auto differs = [&](const ExportedProblem& other) {
                return other.values[i] != problem.values[i];
            };
            if (std::ranges::any_of(problems, differs))
                problem.name += "_" + name_of(parameters[i], problem.values[i].second);
        }
        if (const int before = names[problem.name]++; before > 0)
            problem.name += formatted("_{}", before + 1);
        std::ranges::stable_sort(problem.variants, {}, [](const ExportedVariant* one) {
            return preference(*one->variant.target(), one->binary.kind);
        });
    }
    return problems;
}

bool is_c_integer(const std::string& c_type) {
    return !c_type.ends_with('*') && c_type != "float" && c_type != "double";
}

namespace {

/// How C passes it, under its name. Throws UsageError.
std::string checked_c_type(const std::string& of, const KernelArgument& argument, std::size_t number) {
    const auto type = c_type(argument.type);
    if (!type || argument.name.empty())
        throw UsageError(formatted("{} can't be exported: C has no way to pass its argument {}, {} {}.", of,
                                   number, argument.type, argument.name));
    if (argument.name.starts_with(kOwnNames))
        throw UsageError(
            formatted("{} can't be exported: its argument {} begins with kiln_, as names of the "
                      "exported code do; give it another name.",
                      of, argument.name));
    if (std::ranges::find(kNoNamesInC, argument.name) != std::end(kNoNamesInC))
        throw UsageError(
            formatted("{} can't be exported: its argument {} is a keyword or a macro in C; give it another "
                      "name.",
                      of, argument.name));
    return *type;
}

}  // namespace

ExportedArguments::ExportedArguments(const ExportedProblem& problem) {
    const Template of = problem.variants.front()->variant.origin();
    const std::size_t count = VariantAccess::data(problem.variants.front()->variant).places.size();
    for (std::size_t i = 0; i < count; ++i) {
        // Its type follows from what is computed, and so is the same in all that have it.
        const auto has_it = std::ranges::find_if(problem.variants, [i](const ExportedVariant* one) {
            return VariantAccess::data(one->variant).places[i].has_value();
        });
        is_passed.push_back(has_it != problem.variants.end());
        if (!is_passed.back()) {
            types.emplace_back("const void*");
            declared_types.emplace_back();
            names.push_back(formatted("kiln_null_{}", i));
            continue;
        }
        const Variant& variant = (*has_it)->variant;
        const KernelArgument& argument = variant.arguments()[*VariantAccess::data(variant).places[i]];
        if (std::ranges::find(of.sizes(), argument.name, &SizeArgument::name) != of.sizes().end())
            sizes.push_back(names.size());
        const auto tensor = std::ranges::find(of.tensors(), argument.name, &TensorArgument::name);
        if (tensor != of.tensors().end() && tensor->role == TensorRole::scratch)
            scratch.push_back(names.size());
        types.push_back(checked_c_type(of.name(), argument, i + 1));
        declared_types.push_back(argument.type);
        names.push_back(argument.name);
    }
}

std::string ExportedArguments::all() const {
    std::vector<std::string> words = {"void* kiln_stream"};
    for (std::size_t i = 0; i < names.size(); ++i)
        if (is_passed[i]) words.push_back(declared(i));
    return join(words);
}

std::string ExportedArguments::integers() const {
    std::vector<std::string> words;
    for (std::size_t i = 0; i < names.size(); ++i)
        if (is_c_integer(types[i])) words.push_back(declared(i));
    return join(words);
}

std::string ExportedArguments::integers_with_scratch() const {
    std::vector<std::string> words;
    if (!integers().empty()) words.push_back(integers());
    for (const std::size_t i : scratch) words.push_back("size_t* " + names[i] + "_bytes");
    return join(words);
}

}  // namespace kiln
