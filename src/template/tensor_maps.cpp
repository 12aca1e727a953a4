// SPDX-License-Identifier: Apache-2.0
//
// Boxes, swizzles and types are known once a variant is made; extents at each launch.
#include "template/tensor_maps.h"

#include <kiln/error.h>

#include "format/format.h"
#include "template/element_type.h"
#include "template/template_data.h"

namespace kiln {
namespace {

/// The extent that is wrong, evaluated again from the author's expression for the message.
[[noreturn]] void refuse_extent(const VariantData& data, const TensorMapSpec& spec,
                                const Expression& expression, void* const* arguments) {
    const FrontMatter& front_matter = data.origin->content->front_matter;
    Environment environment = data.origin->rules.environment(data.codes);
    environment.arguments = arguments;
    Failure failure;
    const std::int64_t value = expression.evaluate(environment, failure);
    std::string message = front_matter.kernel + ": the extent " + expression.text() + " of the tensor map " +
                          spec.name + " of " + spec.tensor;
    message += failure ? " can't be computed, since " + failure.text()
                       : formatted(" is {}, but can't be negative", value);
    const std::string values = describe_values(expression, front_matter.parameters, environment);
    throw VariantError(message + (values.empty() ? "" : "; here " + values), expression.text());
}

}  // namespace

std::vector<TensorMapProgram> tensor_map_programs(const FrontMatter& front_matter, const VariantData& made,
                                                  const Environment& environment) {
    std::vector<TensorMapProgram> programs;
    const auto number = [&](const ExpressionPtr& expression) {
        Failure never;  // the rules of tensor maps have seen to it
        return expression->evaluate(environment, never);
    };
    const ProblemLines& problem = front_matter.problem;
    for (std::size_t i = 0; i < problem.tensor_maps.size(); ++i) {
        const TensorMapLine& line = problem.tensor_map_lines[i];
        TensorMapProgram program;
        TensorMapSpec& spec = program.spec;
        spec.name = problem.tensor_maps[i].name;
        spec.tensor = problem.tensor_maps[i].tensor;
        const auto place = made.places[line.pointer_argument];
        if (!place || (line.condition && number(line.condition) == 0)) {
            programs.push_back(std::move(program));
            continue;
        }
        spec.pointer_argument = *place;
        spec.type = *pointee((*made.arguments)[*place].type);
        spec.element_bytes = static_cast<std::size_t>(find_normalised_type(spec.type)->bytes);
        spec.rank = static_cast<int>(line.extents.size());
        for (std::size_t k = 0; k < line.box.size(); ++k)
            spec.box[k] = static_cast<std::uint32_t>(number(line.box[k]));
        if (line.swizzle) spec.swizzle_bytes = static_cast<int>(number(line.swizzle));
        for (const ExpressionPtr& extent : line.extents) program.extents.emplace_back(*extent, environment);
        programs.push_back(std::move(program));
    }
    return programs;
}

bool may_overlap(const Variant& variant) { return VariantAccess::data(variant).dependent; }

std::size_t tensor_map_count(const Variant& variant) {
    return VariantAccess::data(variant).tensor_maps.size();
}

const std::vector<std::optional<std::size_t>>& argument_places(const Variant& variant) {
    return VariantAccess::data(variant).places;
}

std::vector<TensorMapSpec> tensor_map_specs(const Variant& variant, void* const* arguments) {
    const VariantData& data = VariantAccess::data(variant);
    const Environment environment{data.codes, &data.origin->limits, arguments};
    std::vector<TensorMapSpec> specs;
    specs.reserve(data.tensor_maps.size());
    for (const TensorMapProgram& program : data.tensor_maps) {
        TensorMapSpec& spec = specs.emplace_back(program.spec);
        for (std::size_t k = 0; k < program.extents.size(); ++k) {
            bool failed = false;
            const std::int64_t extent = program.extents[k].run(environment, failed);
            if (failed || extent < 0) {
                const std::size_t map = specs.size() - 1;
                const TensorMapLine& line = data.origin->content->front_matter.problem.tensor_map_lines[map];
                refuse_extent(data, spec, *line.extents[k], arguments);
            }
            spec.extents[k] = static_cast<std::uint64_t>(extent);
        }
    }
    return specs;
}

}  // namespace kiln
