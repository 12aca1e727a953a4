// SPDX-License-Identifier: Apache-2.0
//
// kiln list, show and build.
#include <kiln/error.h>
#include <kiln/model.h>
#include <kiln/tools/resources.h>
#include <kiln/wisdom.h>

#include <algorithm>
#include <optional>

#include "cli/editor_files.h"
#include "cli/kiln_command.h"
#include "cli/option_values.h"
#include "cli/output_file.h"
#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

std::vector<std::string> backend_names(const Template& of) {
    std::vector<std::string> names;
    for (const Backend backend : of.backends()) names.emplace_back(name(backend));
    return names;
}

/// A service that shows templates for a target, and builds nothing.
std::unique_ptr<Service> showing_service(const Call& call, Warnings& warnings) {
    ServiceOptions options = compile_options(call, warnings);
    options.cache = {};
    options.cache.enabled = false;
    auto service = std::make_unique<Service>(std::move(options));
    warnings.release();
    return service;
}

std::string extents(const Dim3& dim) { return formatted("{} x {} x {}", dim.x, dim.y, dim.z); }
Json extents_json(const Dim3& dim) { return Json::array({dim.x, dim.y, dim.z}); }

/// " if BIAS"; nothing for what all variants have.
std::string condition_text(const std::string& condition) {
    return condition.empty() ? "" : " if " + condition;
}

Json problem_json(const Template& of) {
    Json sizes = Json::array(), tensors = Json::array(), maps = Json::array();
    for (const SizeArgument& size : of.sizes())
        sizes.push_back({{"name", size.name},
                         {"default", size.default_text},
                         {"test", text_or_null(size.test_text)},
                         {"multiple", text_or_null(size.multiple_text)},
                         {"at_most", text_or_null(size.most_text)},
                         {"text", size.text}});
    for (const TensorArgument& tensor : of.tensors())
        tensors.push_back({{"name", tensor.name},
                           {"role", name(tensor.role)},
                           {"extents", tensor.extents_text},
                           {"align", text_or_null(tensor.align_text)},
                           {"fill", text_or_null(tensor.fill_text)},
                           {"reference", text_or_null(tensor.reference)},
                           {"exact", tensor.exact},
                           {"any_order", tensor.any_order},
                           {"condition", text_or_null(tensor.condition_text)},
                           {"text", tensor.text}});
    for (const TensorMapArgument& map : of.tensor_maps())
        maps.push_back(
            {{"name", map.name}, {"tensor", map.tensor}, {"condition", text_or_null(map.condition_text)}});
    return {{"runnable", of.is_runnable()},
            {"sizes", sizes},
            {"tensors", tensors},
            {"tensor_maps", maps},
            {"flops", text_or_null(of.flops())},
            {"bytes", text_or_null(of.bytes())},
            {"naive", text_or_null(of.naive())}};
}

/// Nothing for a template without a declared problem.
std::string problem_text(const Template& of) {
    std::vector<std::vector<std::string>> sizes, tensors;
    for (const SizeArgument& size : of.sizes())
        sizes.push_back({size.name,
                         size.default_text + (size.test_text.empty() ? "" : " (" + size.test_text + ")") +
                             (size.multiple_text.empty() ? "" : ", multiples of " + size.multiple_text) +
                             (size.most_text.empty() ? "" : ", at most " + size.most_text),
                         size.text});
    for (const TensorArgument& tensor : of.tensors()) {
        const std::string how = tensor.reference.empty()   ? tensor.fill_text
                                : tensor.fill_text.empty() ? "by " + tensor.reference
                                                           : tensor.fill_text + " by " + tensor.reference;
        const std::string align = tensor.align_text.empty() ? "" : " align " + tensor.align_text;
        tensors.push_back({tensor.name, std::string(name(tensor.role)),
                           "[" + tensor.extents_text + "]" + align,
                           how + (tensor.exact ? " exact" : "") + (tensor.any_order ? " any_order" : "") +
                               condition_text(tensor.condition_text),
                           tensor.text});
    }
    for (const TensorMapArgument& map : of.tensor_maps())
        tensors.push_back({map.name, "tensor map", "of " + map.tensor + condition_text(map.condition_text)});
    std::string text;
    if (!sizes.empty()) text += "\nSizes by default (in parentheses those of tests):\n" + table(sizes);
    if (!tensors.empty()) text += "\nTensors:\n" + table(tensors);
    std::string figures;
    if (!of.flops().empty()) figures += line("flops", of.flops());
    if (!of.bytes().empty()) figures += line("bytes", of.bytes());
    if (!of.naive().empty()) figures += line("naive", of.naive());
    return text + (figures.empty() ? "" : "\nProblem:\n" + figures);
}

std::string arguments_text(const Variant& variant) {
    std::vector<std::string> arguments;
    for (const KernelArgument& argument : variant.arguments())
        arguments.push_back(argument.type + " " + argument.name);
    return arguments.empty() ? "none" : enumerate(arguments, ", ");
}

/// "BM+BN, STAGES"
std::string groups_text(const std::vector<std::vector<std::string>>& groups) {
    std::vector<std::string> texts;
    for (const std::vector<std::string>& group : groups) {
        std::string& text = texts.emplace_back();
        for (const std::string& name : group) text += (text.empty() ? "" : "+") + name;
    }
    return enumerate(texts, ", ");
}

/// A template's properties for a target.
struct Shown {
    Template of;
    std::optional<std::uint64_t> variants;  ///< legal ones; not set: too many to count
    std::optional<Variant> example;         ///< the defaults, else the first legal variant
    std::string problem;                    ///< why it is not the defaults
};

Shown examined(Template of) {
    Shown shown{std::move(of), std::nullopt, std::nullopt, {}};
    try {
        shown.example = shown.of.variant();
    } catch (const VariantError& error) {
        shown.problem = error.what();
        shown.example = shown.of.first_variant();
    }
    shown.variants = shown.of.variant_count();
    return shown;
}

Json shown_json(const Shown& shown, const Target& target) {
    Json parameters = Json::array(), rules = Json::array(), arguments = Json::array();
    for (const Parameter& parameter : shown.of.parameters()) {
        const bool is_range = parameter.allowed.empty() && parameter.kind == ParameterKind::integer;
        Json allowed;
        for (const Value& value : parameter.allowed) allowed.push_back(value_json(value));
        parameters.push_back(
            {{"name", parameter.name},
             {"kind", name(parameter.kind)},
             {"allowed", allowed},
             {"range", is_range ? Json::array({parameter.min, parameter.max}) : Json()},
             {"default", value_json(parameter.default_value)},
             {"default_expression",
              parameter.default_expression.empty() ? Json() : Json(parameter.default_expression)},
             {"signature", text_or_null(parameter.signature)},
             {"result", text_or_null(parameter.result)},
             {"text", parameter.text}});
    }
    const Values here = shown.example ? shown.example->constants() : Values();
    Json constants = Json::array();
    for (const Constant& constant : shown.of.constants())
        constants.push_back({{"name", constant.name},
                             {"expression", constant.expression},
                             {"value", shown.example ? value_json(here.at(constant.name)) : Json()},
                             {"text", constant.text}});
    for (const Constraint& rule : shown.of.constraints())
        rules.push_back({{"rule", rule.expression}, {"text", rule.text}, {"line", rule.line}});
    Json json;
    json["name"] = shown.of.name();
    json["summary"] = shown.of.summary();
    json["file"] = shown.of.file();
    json["backends"] = backend_names(shown.of);
    json["archs"] = shown.of.archs();
    json["backend"] = name(target.backend);
    json["arch"] = target.arch;
    json["parameters"] = parameters;
    json["constants"] = constants;
    json["rules"] = rules;
    json["dependent"] = text_or_null(shown.of.dependent());
    json["opt_level"] = text_or_null(shown.of.opt_level());
    json["problem"] = problem_json(shown.of);
    json["model"] = {{"search", shown.of.model_search().groups},
                     {"host_search", shown.of.model_search().host_groups}};
    json["legal_variants"] = or_null(shown.variants);
    json["digest"] = shown.example ? Json(template_digest(shown.of)) : Json();
    json["defaults_problem"] = shown.problem.empty() ? Json() : Json(shown.problem);
    Json example;
    if (shown.example) {
        for (const KernelArgument& argument : shown.example->arguments())
            arguments.push_back({{"name", argument.name}, {"type", argument.type}});
        Json kernels = Json::array();
        for (const VariantKernel& kernel : shown.example->kernels())
            kernels.push_back({{"name", kernel.name},
                               {"arguments", kernel.arguments},
                               {"block", extents_json(kernel.block)},
                               {"cluster", extents_json(kernel.cluster)},
                               {"static_shared_bytes", kernel.static_shared_bytes},
                               {"dynamic_shared_bytes", kernel.dynamic_shared_bytes},
                               {"dependent", kernel.dependent},
                               {"cooperative", kernel.cooperative}});
        example = {{"values", values_json(shown.example->values())},
                   {"arguments", arguments},
                   {"kernels", kernels},
                   {"block", extents_json(shown.example->block())},
                   {"cluster", extents_json(shown.example->cluster())},
                   {"static_shared_bytes", shown.example->static_shared_bytes()},
                   {"dynamic_shared_bytes", shown.example->dynamic_shared_bytes()},
                   {"dependent", shown.example->dependent()},
                   {"opt_level", shown.example->opt_level()}};
    }
    json["example"] = example;
    return json;
}

// "count with 256 x 1 x 1 threads, then merge with 64 x 1 x 1 threads"
std::string kernels_text(const std::vector<VariantKernel>& kernels) {
    std::vector<std::string> texts;
    for (const VariantKernel& kernel : kernels)
        texts.push_back(kernel.name + " with " + extents(kernel.block) + " threads");
    return enumerate(texts, ", then ");
}

std::string shown_text(const Shown& shown, const Target& target) {
    std::string text = shown.of.name() + ": " + shown.of.summary() + "\n\n";
    text += line("file", shown.of.file());
    text += line("backends", enumerate(backend_names(shown.of), ", ") +
                                 (shown.of.archs().empty() ? "" : "; " + enumerate(shown.of.archs(), ", ")));
    text += line("target", target_text(target));
    text += line("variants", shown.variants ? formatted("{} legal ones", *shown.variants)
                                            : "too many legal ones to count");
    if (shown.example) {
        const Variant& example = *shown.example;
        text += line(shown.problem.empty() ? "defaults" : "example", example.text());
        text += line("arguments", arguments_text(example));
        if (const auto kernels = example.kernels(); kernels.size() > 1)
            text += line("kernels", kernels_text(kernels));
        text += line("block", extents(example.block()) + " threads");
        if (example.cluster().count() > 1) text += line("cluster", extents(example.cluster()) + " blocks");
        text += line("shared", formatted("{} bytes per block",
                                         example.static_shared_bytes() + example.dynamic_shared_bytes()));
    }
    const auto here = [&](const std::string& value) { return shown.example ? " (" + value + " here)" : ""; };
    if (!shown.of.dependent().empty())
        text += line("dependent",
                     "launches may overlap where " + shown.of.dependent() +
                         here(shown.example && shown.example->dependent() ? "they may" : "they may not"));
    if (!shown.of.opt_level().empty())
        text += line("opt_level", "ptxas compiles at " + shown.of.opt_level() +
                                      here(shown.example ? std::to_string(shown.example->opt_level()) : ""));
    if (!shown.of.model_search().groups.empty())
        text += line("varied", groups_text(shown.of.model_search().groups) + " by the model");
    if (!shown.problem.empty()) text += line("defaults", "not legal here: " + shown.problem);

    std::vector<std::vector<std::string>> parameters, constants, rules;
    for (const Parameter& parameter : shown.of.parameters())
        parameters.push_back({parameter.name,
                              parameter.allowed_text() + " (" + parameter.default_text() + ")",
                              parameter.text});
    const Values values = shown.example ? shown.example->constants() : Values();
    for (const Constant& constant : shown.of.constants())
        constants.push_back(
            {constant.name,
             constant.expression + (shown.example ? " (" + values.at(constant.name).text() + ")" : ""),
             constant.text});
    for (const Constraint& rule : shown.of.constraints()) rules.push_back({rule.expression, rule.text});
    if (!parameters.empty()) text += "\nParameters (in parentheses the default):\n" + table(parameters);
    if (!constants.empty())
        text += "\nConstants (in parentheses those of the " +
                std::string(shown.problem.empty() ? "defaults" : "example") + "):\n" + table(constants);
    if (!rules.empty()) text += "\nRules:\n" + table(rules);
    return text + problem_text(shown.of);
}

}  // namespace

int list_templates(const Call& call) {
    std::vector<std::vector<std::string>> rows;
    Json list = Json::array();
    Warnings warnings(call.terminal);
    std::optional<Backend> backend = call.options.backend;
    if (!call.options.arch.empty()) backend = showing_service(call, warnings)->backend();
    for (const Template& found : TemplateSet(call.options.template_directories).all()) {
        if (backend && !found.runs_on(*backend, call.options.arch)) continue;
        if (found.is_reference() && !call.flag("all")) continue;
        std::string defaults;
        Json parameters = Json::array();
        for (const Parameter& parameter : found.parameters()) {
            defaults += (defaults.empty() ? "" : " ") + parameter.name + "=" + parameter.default_value.text();
            parameters.push_back(parameter.name);
        }
        rows.push_back({found.name(), enumerate(backend_names(found), ", "), found.summary()});
        list.push_back({{"name", found.name()},
                        {"summary", found.summary()},
                        {"parameters", parameters},
                        {"defaults", defaults},
                        {"backends", backend_names(found)},
                        {"archs", found.archs()},
                        {"reference", found.is_reference()}});
    }
    call.print({{"templates", list}}, table(rows));
    return kPassed;
}

int show_template(const Call& call) {
    Warnings warnings(call.terminal);
    const auto service = showing_service(call, warnings);
    if (!call.options.include_directories.empty() && !call.has("editor"))
        throw UsageError("--include-dir says where --editor finds headers, and --editor is not given");
    if (!call.options.compile_options.empty() && !call.has("editor"))
        throw UsageError("--option and --define are for --editor here, and --editor is not given");
    const Template found = service->find(call.words[0]);
    if (call.has("editor")) {
        const auto written = write_editor_files(found, call.options, call.value("editor"));
        Json files = Json::array();
        for (const auto& file : written) files.push_back(file.string());
        call.print(
            {{"template", found.name()}, {"files", files}},
            formatted("wrote {} and {} files that it names\n", written.back().string(), written.size() - 1));
        return kPassed;
    }
    const Shown shown = examined(found);
    call.print(shown_json(shown, service->target()), shown_text(shown, service->target()));
    return kPassed;
}

int build_variant(const Call& call) {
    Warnings warnings(call.terminal);
    const auto service = open_service(call, warnings, compile_options(call, warnings));
    if (call.has("size") && !call.flag("best"))
        throw UsageError("--size gives the sizes for --best, which is not given; a build needs no sizes.");
    std::optional<Choice> choice;
    if (call.flag("best")) choice = best_choice(*service, call, false);
    const Variant variant =
        choice ? choice->variant
               : chosen_variant(service->find(call.words[0]), std::span(call.words).subspan(1));
    const std::string output = call.has("output") ? call.value("output") : std::string();
    std::optional<Output> place;
    if (!output.empty()) {
        place.emplace("--output", output);
        place->check_json(call.options.json);
        place->check_terminal(call.terminal);
        place->check_replaces("binary", binary_marks());
    }
    const Compiled compiled = [&] {
        const Progress progress(call.terminal, "building");
        return service->compile(variant);
    }();
    const Binary& binary = compiled.binary;
    if (place) place->write({reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size()});
    if (place && place->is_standard_output()) return kPassed;

    const Resources resources = resources_of(binary);
    const std::optional<int> registers = resources.registers;
    const std::size_t shared_bytes = resources.static_shared_bytes.value_or(variant.static_shared_bytes()) +
                                     variant.dynamic_shared_bytes();
    Json json;
    json["template"] = variant.template_name();
    json["values"] = values_json(variant.values());
    json["backend"] = name(service->backend());
    json["arch"] = service->target().arch;
    json["tier"] = name(compiled.origin);
    json["elapsed_ms"] = compiled.elapsed_ms;
    json["compile_ms"] = binary.compile_ms;
    json["key"] = compiled.key.digest;
    json["kind"] = name(binary.kind);
    json["bytes"] = binary.bytes.size();
    json["compiler"] = binary.compiler;
    json["shared_bytes"] = shared_bytes;
    json["registers"] = or_null(registers);
    json["output"] = output.empty() ? Json() : Json(output);
    json["choice"] = choice ? Json(choice->text()) : Json();
    Json phases;
    std::string phases_text;
    if (call.flag("time")) {
        for (const CompilePhase& phase : service->compile_phases(variant)) {
            phases.push_back({{"name", phase.name}, {"ms", phase.ms}});
            phases_text += (phases_text.empty() ? "" : ", ") + phase.name + " " + duration(phase.ms);
        }
    }
    json["phases"] = phases;

    std::string text = variant.text() + "\n\n";
    if (choice) text += line("chosen", choice->text());
    text += line("target", target_text(service->target()));
    text += line("build", origin_text(compiled.origin, compiled.elapsed_ms));
    text += line("key", compiled.key.digest);
    text += line("compiler", binary.compiler);
    text += line("size", bytes_text(double(binary.bytes.size())) + ", " + std::string(name(binary.kind)));
    text += line("resources", formatted("{} shared bytes per block{}", shared_bytes,
                                        registers ? formatted(", {} registers per thread", *registers) : ""));
    if (!phases_text.empty()) text += line("phases", phases_text);
    if (!output.empty()) text += line("output", output);
    call.print(json, text);
    return kPassed;
}

}  // namespace kiln::cli
