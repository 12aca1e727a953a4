// SPDX-License-Identifier: Apache-2.0
//
// kiln list, show and build.
#include <kiln/error.h>

#include <algorithm>
#include <optional>

#include "cli/figures.h"
#include "cli/kiln_command.h"
#include "cli/output_file.h"
#include "cli/parameter_options.h"
#include "cli/words.h"

namespace kiln::cli {
namespace {

std::vector<std::string> backend_names(const Template& of) {
    std::vector<std::string> names;
    for (const Backend backend : of.backends()) names.emplace_back(name(backend));
    return names;
}

bool may_run(const Template& candidate, const KilnOptions& options) {
    const auto& backends = candidate.backends();
    if (options.backend && std::find(backends.begin(), backends.end(), *options.backend) == backends.end())
        return false;
    const auto& archs = candidate.archs();
    return options.arch.empty() || archs.empty() ||
           std::find(archs.begin(), archs.end(), options.arch) != archs.end();
}

std::string extents(const Dim3& dim) { return format("%u x %u x %u", dim.x, dim.y, dim.z); }
Json extents_json(const Dim3& dim) { return Json::array({dim.x, dim.y, dim.z}); }

std::string arguments_text(const Variant& variant) {
    std::vector<std::string> arguments;
    for (const KernelArgument& argument : variant.arguments())
        arguments.push_back(argument.type + " " + argument.name);
    return arguments.empty() ? "none" : enumerate(arguments, ", ");
}

/// What a template is for a target.
struct Shown {
    Template of;
    std::optional<std::size_t> variants;  ///< legal ones; not set: too many to count
    std::optional<Variant> example;       ///< the defaults, else the first legal variant
    std::string problem;                  ///< why it is not the defaults
};

Shown examined(Template of) {
    Shown shown{std::move(of), std::nullopt, std::nullopt, {}};
    try {
        shown.example = shown.of.variant();
    } catch (const VariantError& error) {
        shown.problem = error.what();
    }
    try {
        const std::vector<Variant> variants = shown.of.variants();
        shown.variants = variants.size();
        if (!shown.example && !variants.empty()) shown.example = variants.front();
    } catch (const VariantError&) {
        // More than can be enumerated.
    }
    return shown;
}

Json shown_json(const Shown& shown, const Target& target) {
    Json parameters = Json::array(), rules = Json::array(), arguments = Json::array();
    for (const Parameter& parameter : shown.of.parameters()) {
        Json allowed;
        for (const Value& value : parameter.allowed) allowed.push_back(value_json(value));
        parameters.push_back(
            {{"name", parameter.name},
             {"allowed", allowed},
             {"range", parameter.allowed.empty() ? Json::array({parameter.min, parameter.max}) : Json()},
             {"default", value_json(parameter.default_value)},
             {"text", parameter.text}});
    }
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
    json["rules"] = rules;
    json["legal_variants"] = or_null(shown.variants);
    json["defaults_problem"] = shown.problem.empty() ? Json() : Json(shown.problem);
    Json example;
    if (shown.example) {
        for (const KernelArgument& argument : shown.example->arguments())
            arguments.push_back({{"name", argument.name}, {"type", argument.type}});
        example = {{"values", values_json(shown.example->values())},
                   {"arguments", arguments},
                   {"block", extents_json(shown.example->block())},
                   {"cluster", extents_json(shown.example->cluster())},
                   {"static_shared_bytes", shown.example->static_shared_bytes()},
                   {"dynamic_shared_bytes", shown.example->dynamic_shared_bytes()}};
    }
    json["example"] = example;
    return json;
}

std::string shown_text(const Shown& shown, const Target& target) {
    std::string text = shown.of.name() + ": " + shown.of.summary() + "\n\n";
    text += line("file", shown.of.file());
    text += line("backends", enumerate(backend_names(shown.of), ", ") +
                                 (shown.of.archs().empty() ? "" : "; " + enumerate(shown.of.archs(), ", ")));
    text += line("target", target_text(target));
    text += line("variants", shown.variants ? std::to_string(*shown.variants) + " legal ones"
                                            : "too many legal ones to count");
    if (shown.example) {
        const Variant& example = *shown.example;
        text += line(shown.problem.empty() ? "defaults" : "example", example.text());
        text += line("arguments", arguments_text(example));
        text += line("block", extents(example.block()) + " threads");
        if (example.cluster().count() > 1) text += line("cluster", extents(example.cluster()) + " blocks");
        text +=
            line("shared", std::to_string(example.static_shared_bytes() + example.dynamic_shared_bytes()) +
                               " bytes per block");
    }
    if (!shown.problem.empty()) text += line("defaults", "not legal here: " + shown.problem);

    std::vector<std::vector<std::string>> parameters, rules;
    for (const Parameter& parameter : shown.of.parameters())
        parameters.push_back({parameter.name,
                              parameter.allowed_text() + " (" + parameter.default_value.text() + ")",
                              parameter.text});
    for (const Constraint& rule : shown.of.constraints()) rules.push_back({rule.expression, rule.text});
    if (!parameters.empty()) text += "\nParameters (in parentheses the default):\n" + table(parameters);
    if (!rules.empty()) text += "\nRules:\n" + table(rules);
    return text;
}

/// From the report of NVIDIA's assembler, which is part of the log.
std::optional<int> registers_in(const std::string& log) {
    constexpr std::string_view kBefore = "Used ", kAfter = " registers";
    for (std::size_t at = log.find(kBefore); at != std::string::npos; at = log.find(kBefore, at + 1)) {
        const std::size_t digits = at + kBefore.size();
        const std::size_t end = log.find_first_not_of("0123456789", digits);
        if (end != std::string::npos && end > digits && end - digits < 6 &&
            log.compare(end, kAfter.size(), kAfter) == 0)
            return std::stoi(log.substr(digits, end - digits));
    }
    return std::nullopt;
}

}  // namespace

int list_templates(const Call& call) {
    std::vector<std::vector<std::string>> rows;
    Json list = Json::array();
    for (const Template& found : Catalogue(call.options.template_directories).all()) {
        if (!may_run(found, call.options)) continue;
        std::string defaults;
        Json parameters = Json::array();
        for (const Parameter& parameter : found.parameters()) {
            defaults += (defaults.empty() ? "" : " ") + parameter.name + "=" + parameter.default_value.text();
            parameters.push_back(parameter.name);
        }
        rows.push_back({found.name(), enumerate(backend_names(found), ", "), found.summary()});
        if (!defaults.empty()) rows.push_back({"", "", defaults});
        list.push_back({{"name", found.name()},
                        {"summary", found.summary()},
                        {"parameters", parameters},
                        {"defaults", defaults},
                        {"backends", backend_names(found)},
                        {"archs", found.archs()}});
    }
    call.print({{"templates", list}}, table(rows));
    return kPassed;
}

int show_template(const Call& call) {
    Warnings warnings(call.terminal);
    ServiceOptions options = compile_options(call, warnings);
    options.cache = {};
    options.cache.enabled = false;
    const Service service(std::move(options));
    warnings.release();
    const Shown shown = examined(service.find(call.words[0]));
    call.print(shown_json(shown, service.target()), shown_text(shown, service.target()));
    return kPassed;
}

int build_variant(const Call& call) {
    Warnings warnings(call.terminal);
    const auto service = open_service(call, warnings, compile_options(call, warnings));
    const Variant variant = chosen_variant(service->find(call.words[0]), std::span(call.words).subspan(1));
    const Compiled compiled = [&] {
        const Progress progress(call.terminal, "building");
        return service->compile(variant);
    }();
    const Binary& binary = compiled.binary;
    const std::string output = call.has("output") ? call.value("output") : std::string();
    if (!output.empty())
        write_output(output, {reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size()});

    const std::optional<int> registers = registers_in(binary.log);
    const std::size_t shared_bytes = variant.static_shared_bytes() + variant.dynamic_shared_bytes();
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

    std::string text = variant.text() + "\n\n";
    text += line("target", target_text(service->target()));
    text += line("build", origin_text(compiled.origin, compiled.elapsed_ms));
    text += line("key", compiled.key.digest);
    text += line("compiler", binary.compiler);
    text += line("size", bytes_text(double(binary.bytes.size())) + ", " + std::string(name(binary.kind)));
    text +=
        line("resources", std::to_string(shared_bytes) + " shared bytes per block" +
                              (registers ? ", " + std::to_string(*registers) + " registers per thread" : ""));
    if (!output.empty()) text += line("output", output);
    call.print(json, text);
    return kPassed;
}

}  // namespace kiln::cli
