// SPDX-License-Identifier: Apache-2.0
//
// Finds a reference, binds its parameters and arguments by name, and launches it.
#include "run/reference.h"

#include <kiln/error.h>

#include <algorithm>
#include <optional>

#include "base/words.h"
#include "format/format.h"
#include "run/launch_arguments.h"

namespace kiln {
namespace {

constexpr std::size_t kFixedArguments = 4;  // count, which, expected, bound

[[noreturn]] void refuse(const Template& reference, const std::string& tested, const std::string& why) {
    throw TemplateError(reference.file(), 0, 0,
                        reference.name() + " can't be the reference of " + tested + ": " + why);
}

Template found(Service& host, const Variant& tested, const std::string& output, const std::string& name) {
    const Template origin = tested.origin();
    const auto declared = std::find_if(origin.tensors().begin(), origin.tensors().end(),
                                       [&](const TensorArgument& tensor) { return tensor.name == output; });
    std::optional<Template> reference;
    try {
        reference = host.find(name);
    } catch (const UsageError& error) {
        throw TemplateError(origin.file(), declared == origin.tensors().end() ? 0 : declared->line, 1,
                            "the reference of the output " + output + " does not exist: " + error.what());
    }
    if (!reference->is_reference())
        refuse(*reference, tested.template_name(),
               "the arguments of a reference begin with (long long count, const long long* which, double* "
               "expected, double* bound)");
    return *reference;
}

/// A tensor that only some variants have.
bool is_conditional(const Variant& tested, const std::string& name) {
    const Template of = tested.origin();
    return std::ranges::any_of(of.tensors(), [&](const TensorArgument& tensor) {
        return tensor.name == name && !tensor.condition_text.empty();
    });
}

std::string pointee(const std::string& type) {
    std::string element = type.substr(0, type.size() - 1);
    if (element.starts_with("const ")) element.erase(0, 6);
    return element;
}

}  // namespace

Service& ReferenceService::get() {
    const ServiceOptions& tested = tested_.options();
    const bool observed = tested.observer != nullptr;  // warnings about references are dropped
    const bool is_plain = tested.compile_options.empty() && !tested.debug;
    if (tested_.backend() == Backend::host && !observed && is_plain) return tested_;
    if (!host_) {
        ServiceOptions options = tested;
        options.cached_only = false;  // that applies to the tested kernel only, as do these:
        options.compile_options.clear();
        options.debug = false;
        options.backend = Backend::host;
        options.observer = nullptr;
        options.device = 0;
        options.arch.clear();
        options.compile_only = false;
        host_ = std::make_unique<Service>(std::move(options));
    }
    return *host_;
}

/// With the tested variant's values for parameters of the same name.
Variant reference_variant(Service& host, const Variant& tested, const std::string& output,
                          const std::string& reference) {
    const Template of = found(host, tested, output, reference);
    Values values;
    for (const auto& [name, value] : tested.values())
        if (of.parameter(name) != nullptr) values.emplace(name, value);
    try {
        return of.variant(values);
    } catch (const VariantError& error) {
        refuse(of, tested.text(), error.what());
    }
}

void add_references(Service& host, const Variant& tested, std::vector<Variant>& references) {
    const Template of = tested.origin();
    for (const TensorArgument& tensor : of.tensors()) {
        if (tensor.reference.empty()) continue;
        try {
            Variant reference = reference_variant(host, tested, tensor.name, tensor.reference);
            if (std::ranges::find(references, reference) == references.end())
                references.push_back(std::move(reference));
        } catch (const Error&) {
            // told later
        }
    }
}

bool set_patterns(Service& host, const Variant& tested, Problem& problem) {
    bool any = false;
    for (const Tensor& output : problem.tensors) {
        if (output.reference.empty()) continue;
        const Variant reference = reference_variant(host, tested, output.name, output.reference);
        for (const InputPattern& one : reference.input_patterns(problem.sizes)) {
            const auto input = std::ranges::find(problem.tensors, one.tensor, &Tensor::name);
            if (input == problem.tensors.end() || input->fill != Fill::uniform) continue;
            input->pattern = one.pattern;
            input->pattern_size = one.size;
            any = true;
        }
    }
    return any;
}

Reference::Reference(Service& host, const Variant& tested, const Problem& problem, const Tensor& output)
    : host_(host), variant_(reference_variant(host, tested, output.name, output.reference)) {
    const Template reference = variant_.origin();
    const std::string& tested_name = tested.template_name();
    for (std::size_t i = kFixedArguments; i < variant_.arguments().size(); ++i) {
        const KernelArgument& argument = variant_.arguments()[i];
        if (!argument.type.ends_with('*')) {
            const auto size = problem.sizes.find(argument.name);
            if (size == problem.sizes.end()) {
                std::vector<std::string> known;
                for (const auto& [name, value] : problem.sizes) known.push_back(name);
                refuse(reference, tested_name,
                       "its argument " + argument.name +
                           " is not a size of the tested template; its sizes are " + join(known) +
                           did_you_mean(argument.name, known));
            }
            const std::uint64_t word = packed_integer(argument.type, size->second);
            if (unpacked_integer(argument.type, word) != size->second)
                refuse(reference, tested_name,
                       formatted("{} = {} does not fit its type, {}", argument.name, size->second,
                                 argument.type));
            arguments_.push_back({{}, word});
            continue;
        }
        const auto tensor =
            std::find_if(problem.tensors.begin(), problem.tensors.end(), [&](const Tensor& candidate) {
                return candidate.name == argument.name &&
                       (candidate.role == TensorRole::input || candidate.role == TensorRole::inout);
            });
        if (tensor == problem.tensors.end() && is_conditional(tested, argument.name)) {
            arguments_.push_back({{}, 0});  // null: the variant does not have it
            continue;
        }
        if (tensor == problem.tensors.end()) {
            std::vector<std::string> known;
            for (const Tensor& candidate : problem.tensors)
                if (candidate.role == TensorRole::input || candidate.role == TensorRole::inout)
                    known.push_back(candidate.name);
            refuse(reference, tested_name,
                   "its argument " + argument.name +
                       " is neither an input nor an inout of the tested template; those are " +
                       (known.empty() ? "none" : join(known)) + did_you_mean(argument.name, known));
        }
        if (pointee(argument.type) != tensor->type)
            refuse(reference, tested_name,
                   "its argument " + argument.name + " has elements of " + pointee(argument.type) +
                       ", and those of the tested template are " + tensor->type);
        if (!argument.type.starts_with("const "))
            refuse(reference, tested_name, "its argument " + argument.name + " must be const");
        arguments_.push_back({tensor->name, 0});
        inputs_.push_back(tensor->name);
    }
}

void Reference::build() {
    if (!kernel_) kernel_ = host_.build(variant_);
}

void Reference::bind(const HostTensors& inputs) {
    for (Argument& argument : arguments_)
        if (!argument.tensor.empty())
            argument.value = reinterpret_cast<std::uintptr_t>(inputs.find(argument.tensor)->second.data());
    build();
}

void Reference::evaluate(std::span<const std::int64_t> which, double* expected, double* bound) const {
    if (which.empty()) return;
    auto count = static_cast<long long>(which.size());
    const std::int64_t* elements = which.data();
    std::vector<Argument> values = arguments_;
    std::vector<void*> pointers = {&count, &elements, &expected, &bound};
    for (Argument& argument : values) pointers.push_back(&argument.value);
    kernel_->launch(host_.stream(), pointers.data());
    host_.stream().synchronize();
}

}  // namespace kiln
