// SPDX-License-Identifier: Apache-2.0
//
// Variant: accessors, its source, and the grid at launch.
#include <kiln/error.h>
#include <kiln/template.h>

#include <algorithm>

#include "base/words.h"
#include "format/format.h"
#include "template/arithmetic.h"
#include "template/code_text.h"
#include "template/kernel_launch.h"
#include "template/pointer_arguments.h"
#include "template/specialise.h"
#include "template/template_data.h"

namespace kiln {
namespace {

/// The part of a grid that is wrong, evaluated again from the author's expression for the message.
[[noreturn]] void refuse_grid(const VariantData& data, std::size_t kernel, std::size_t axis,
                              const Environment& environment) {
    const FrontMatter& front_matter = data.origin->content->front_matter;
    const Expression& expression = *launch_lines(front_matter, kernel).grid[axis];
    Failure failure;
    const std::int64_t value = expression.evaluate(environment, failure);
    std::string message = front_matter.kernels[kernel].name.name + ": the grid's " + "xyz"[axis] + ", " +
                          expression.text() + ", ";
    if (failure) {
        message += "can't be computed, since " + failure.text();
    } else if (value < 0) {
        message += formatted("is {}, but can't be negative", value);
    } else {
        message += formatted("is {}, but the most is {}", value, data.largest_grid[axis]);
    }
    const std::string values = describe_values(expression, front_matter.parameters, environment);
    throw VariantError(message + (values.empty() ? "" : "; here " + values), expression.text());
}

void check_clusters(const VariantData& data, const LaunchData& launch, const unsigned (&grid)[3]) {
    const unsigned cluster[3] = {launch.cluster.x, launch.cluster.y, launch.cluster.z};
    for (std::size_t axis = 0; axis < 3; ++axis)
        if (grid[axis] % cluster[axis] != 0)
            throw VariantError(formatted("{}: the grid's {}, {} blocks, is no multiple of the cluster's, {}",
                                         data.origin->content->front_matter.kernel, "xyz"[axis], grid[axis],
                                         cluster[axis]));
}

/// extent(axis, failed): of the grid.
template <class Extent>
Dim3 grid_of(const VariantData& data, std::size_t kernel, const Environment& environment,
             const Extent& extent) {
    const LaunchData& launch = data.launch(kernel);
    bool failed = false;
    unsigned extents[3] = {1, 1, 1};
    for (std::size_t axis = 0; axis < launch.grid.size(); ++axis) {
        const std::int64_t value = extent(axis, failed);
        if (failed || value < 0 || value > data.largest_grid[axis])
            refuse_grid(data, kernel, axis, environment);
        extents[axis] = static_cast<unsigned>(value);
    }
    if (launch.cluster != Dim3{}) check_clusters(data, launch, extents);
    return {extents[0], extents[1], extents[2]};
}

/// The names in braces are replaced by their values; lines whose condition is false are left out.
std::vector<CompileOption> options(const Variant& variant, const TemplateContent& content,
                                   const Codes& codes) {
    std::vector<CompileOption> result;
    if (content.front_matter.options.empty()) return result;
    Values values = variant.values();
    values.merge(variant.constants());
    const auto text_of = [](const Value& value) {
        return value.is_bool() ? std::string(value.as_bool() ? "1" : "0") : value.text();
    };
    for (const OptionLine& line : content.front_matter.options) {
        Failure never;  // the implicit rules have seen to it
        if (line.condition && line.condition->evaluate({codes, nullptr, nullptr}, never) == 0) continue;
        std::string text = line.parts.front();
        for (std::size_t i = 0; i < line.names.size(); ++i)
            text += text_of(values.at(line.names[i])) + line.parts[i + 1];
        result.push_back({text, content.file, line.location.line, line.location.column});
    }
    return result;
}

/// The LTO-IR among the values. Throws VariantError where it can't be used, or there is nothing else.
std::vector<LinkedCode> linked_code(const VariantData& data, Backend backend) {
    std::vector<LinkedCode> linked;
    const FrontMatter& front_matter = data.origin->content->front_matter;
    for (const Parameter& parameter : front_matter.parameters) {
        if (parameter.kind != ParameterKind::code) continue;
        const Code& code = data.values.find(parameter.name)->second.as_code();
        if (!code.is_ltoir()) continue;
        const auto fail = [&](const std::string& why) {
            throw VariantError(front_matter.kernel + ": " + parameter.name + " is LTO-IR, the function " +
                               code.symbol() + why);
        };
        if (backend != Backend::cuda) {
            if (code.body().empty())
                fail(", which only CUDA links; for " + std::string(name(backend)) +
                     ", and for references, give the same in C++ too: the third argument of Code::ltoir, or "
                     "@FILE:SYMBOL=BODY on a command line");
            continue;
        }
        if (parameter.result == "auto" || !argument_names(parameter.signature) ||
            parameter.signature.find("auto ") != std::string::npos)
            fail(
                ", but the template does not declare what it returns and the name and type of each "
                "argument: " +
                parameter.name + parameter.signature);
        // Shares the code's memory.
        linked.push_back({code.symbol(),
                          std::shared_ptr<const std::string>(std::make_shared<Code>(code), &code.ltoir()),
                          code.digest()});
    }
    return linked;
}

}  // namespace

Template Variant::origin() const { return Template(data_->origin); }
const std::string& Variant::template_name() const { return data_->origin->content->front_matter.kernel; }
const Values& Variant::values() const { return data_->values; }
const std::optional<Target>& Variant::target() const { return data_->origin->target; }
const std::string& Variant::text() const { return data_->text; }
Dim3 Variant::block() const { return data_->block; }
Dim3 Variant::cluster() const { return data_->cluster; }
bool Variant::dependent() const { return data_->dependent; }
int Variant::opt_level() const { return data_->opt_level; }
std::size_t Variant::dynamic_shared_bytes() const { return data_->dynamic_shared_bytes; }
std::size_t Variant::static_shared_bytes() const { return data_->static_shared_bytes; }
const std::vector<KernelArgument>& Variant::arguments() const { return *data_->arguments; }
std::size_t Variant::hash() const { return data_->hash; }

const Value& Variant::value(std::string_view name) const {
    const auto found = data_->values.find(name);
    if (found != data_->values.end()) return found->second;
    const std::vector<std::string> names = parameter_names(data_->origin->content->front_matter.parameters);
    throw UsageError(template_name() + " has no parameter " + std::string(name) + did_you_mean(name, names));
}

Values Variant::constants() const {
    const ConstantLines& lines = data_->origin->content->front_matter.constants;
    Values values;
    for (std::size_t i = 0; i < lines.values.size(); ++i) {
        Failure never;  // the variant is legal
        const std::int64_t value = lines.values[i]->evaluate({data_->codes, nullptr, nullptr}, never);
        const Constant& constant = lines.constants[i];
        values.emplace(constant.name, constant.is_bool ? Value(value != 0) : Value(value));
    }
    return values;
}

Source Variant::source(Backend backend, bool real_path) const {
    const TemplateContent& content = *data_->origin->content;
    const bool links = backend == Backend::cuda;
    const std::vector<KernelLines>& kernels = content.front_matter.kernels;
    std::vector<std::string> more;
    for (std::size_t i = 1; i < kernels.size(); ++i) more.push_back(kernels[i].name.expression);
    return {content.file_name,
            kernels.front().name.expression,
            specialised_text(content, data_->codes, data_->values, links, real_path),
            content.includes.headers(backend),
            links ? data_->opt_level : kUsualOptLevel,
            content.includes.open(backend),
            content.include_directories,
            {},
            nullptr,
            options(*this, content, data_->codes),
            linked_code(*data_, backend),
            false,
            std::move(more)};
}

const std::vector<PointerArgument>& pointer_arguments(const Variant& variant) {
    return VariantAccess::data(variant).pointers;
}

Sizes launch_sizes(const Variant& variant, void* const* arguments) {
    const ProblemLines& lines = VariantAccess::data(variant).origin->content->front_matter.problem;
    Sizes sizes;
    for (const SizeLine& line : lines.size_lines) {
        Failure::Reason never{};
        sizes.emplace(variant.arguments()[line.argument].name,
                      arithmetic::read_argument(arguments[line.argument], line.format, never));
    }
    return sizes;
}

Dim3 Variant::grid(void* const* arguments) const { return grid_of_kernel(*this, 0, arguments); }

Dim3 Variant::grid(void* const* arguments, int multiprocessors) const {
    return grid_of_kernel(*this, 0, arguments, multiprocessors);
}

std::vector<Dim3> Variant::grids(void* const* arguments) const {
    std::vector<Dim3> grids;
    for (std::size_t kernel = 0; kernel < kernel_count(*this); ++kernel)
        grids.push_back(grid_of_kernel(*this, kernel, arguments));
    return grids;
}

std::vector<VariantKernel> Variant::kernels() const {
    const FrontMatter& front_matter = data_->origin->content->front_matter;
    std::vector<VariantKernel> kernels;
    for (std::size_t i = 0; i < kernel_count(*this); ++i) {
        KernelLaunch launch = kernel_launch(*this, i);
        VariantKernel kernel{std::move(launch.name),
                             launch.block,
                             launch.cluster,
                             launch.dynamic_shared_bytes,
                             launch.static_shared_bytes,
                             launch.dependent,
                             {},
                             launch.cooperative};
        for (const std::size_t at : launch.arguments)
            kernel.arguments.push_back(front_matter.signature.arguments[at].name);
        kernels.push_back(std::move(kernel));
    }
    return kernels;
}

bool has_variable_copies(const Variant& variant) { return !VariantAccess::data(variant).variables.empty(); }

std::vector<VariableCopy> variable_copies(const Variant& variant, void* const* arguments) {
    const VariantData& data = VariantAccess::data(variant);
    const Environment environment{data.codes, &data.origin->limits, arguments};
    std::vector<VariableCopy> copies;
    for (const VariableProgram& program : data.variables) {
        std::size_t bytes = program.element_bytes;
        for (const LaunchProgram& extent : program.extents) {
            bool failed = false;
            const std::int64_t value = extent.run(environment, failed);
            if (failed || value < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(value), &bytes))
                throw VariantError(
                    variant.template_name() + ": the extents of " + program.name +
                    ", which is copied to the variable of that name, can't be computed for this launch");
        }
        copies.push_back({program.name, program.argument, bytes});
    }
    return copies;
}

Dim3 grid_of_kernel(const Variant& variant, std::size_t kernel, void* const* arguments) {
    const VariantData& data = VariantAccess::data(variant);
    const Environment environment{data.codes, &data.origin->limits, arguments};
    const std::vector<LaunchProgram>& grid = data.launch(kernel).grid;
    return grid_of(data, kernel, environment,
                   [&](std::size_t axis, bool& failed) { return grid[axis].run(environment, failed); });
}

Dim3 grid_of_kernel(const Variant& variant, std::size_t kernel, void* const* arguments, int multiprocessors) {
    const VariantData& data = VariantAccess::data(variant);
    Limits limits = data.origin->limits;
    limits.multiprocessors = std::min<std::int64_t>(limits.multiprocessors, multiprocessors);
    const Environment environment{data.codes, &limits, arguments};
    const std::vector<ExpressionPtr>& grid = launch_lines(data.origin->content->front_matter, kernel).grid;
    return grid_of(data, kernel, environment, [&](std::size_t axis, bool& failed) {
        Failure failure;
        const std::int64_t value = grid[axis]->evaluate(environment, failure);
        failed = static_cast<bool>(failure);
        return value;
    });
}

ModelFacts Variant::model(const Sizes& sizes) const {
    const VariantData& data = *data_;
    const FrontMatter& front_matter = data.origin->content->front_matter;
    // All hosts that Kiln supports are little-endian: a 64-bit word also holds each narrower integer.
    std::vector<std::int64_t> words;
    for (const KernelArgument& argument : *data.arguments) {
        const auto size = sizes.find(argument.name);
        words.push_back(size == sizes.end() ? 0 : size->second);
    }
    std::vector<void*> pointers;
    for (std::int64_t& word : words) pointers.push_back(&word);
    Environment environment = data.origin->rules.environment(data.codes);
    environment.arguments = pointers.data();
    return model_facts(front_matter.model, environment, front_matter.parameters, front_matter.kernel);
}

bool Variant::operator==(const Variant& other) const {
    if (data_ == other.data_) return true;
    if (data_->hash != other.data_->hash || data_->codes != other.data_->codes ||
        data_->values != other.data_->values)
        return false;
    const auto& mine = data_->origin->content;
    const auto& theirs = other.data_->origin->content;
    return mine == theirs || mine->identity == theirs->identity;
}

}  // namespace kiln
