// SPDX-License-Identifier: Apache-2.0
//
// What is wrong is said by the code that makes problems, from the same lines.
#include "template/size_limits.h"

#include "template/pointer_arguments.h"
#include "template/template_data.h"

namespace kiln {

SizeLimits::SizeLimits(const Variant& variant) {
    const VariantData& data = VariantAccess::data(variant);
    const Environment environment = data.origin->rules.environment(data.codes);
    for (const SizeLine& line : data.origin->content->front_matter.problem.size_lines) {
        Computed computed{{line.argument, line.format}, std::nullopt, std::nullopt};
        // A number that is no limit, such as a multiple of 0, is rejected by each launch.
        const auto set = [&](const ExpressionPtr& expression, std::int64_t least, std::int64_t& number,
                             std::optional<LaunchProgram>& program) {
            if (!expression) return;
            const Expression folded = expression->fold(environment);
            if (folded.root().operation == Operator::constant && folded.root().value >= least)
                number = folded.root().value;
            else
                program.emplace(*expression, environment);
        };
        set(line.multiple, 1, computed.of.multiple, computed.multiple);
        set(line.most, 0, computed.of.most, computed.most);
        limits_.push_back(computed.of);
        if (computed.multiple || computed.most) computed_.push_back(std::move(computed));
    }
}

void SizeLimits::check_computed(const Variant& variant, void* const* arguments) const {
    const VariantData& data = VariantAccess::data(variant);
    const Environment environment{data.codes, &data.origin->limits, arguments};
    for (const Computed& one : computed_) {
        Failure::Reason reason{};
        const std::int64_t value =
            arithmetic::read_argument(arguments[one.of.argument], one.of.format, reason);
        bool failed = false;
        std::int64_t multiple = 1, most = one.of.most;
        if (one.multiple) multiple = one.multiple->run(environment, failed);
        if (one.most && !failed) most = one.most->run(environment, failed);
        if (failed || multiple < 1 || value > most || !is_multiple(value, multiple))
            refuse(variant, arguments);
    }
}

void SizeLimits::refuse(const Variant& variant, void* const* arguments) {
    check_sizes(variant, launch_sizes(variant, arguments));
}

}  // namespace kiln
