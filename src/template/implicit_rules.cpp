// SPDX-License-Identifier: Apache-2.0
//
// Each rule is an expression like the author's own, so that checking, messages and suggestions are the same.
#include "template/implicit_rules.h"

#include "template/expression_parser.h"

namespace kiln {
namespace {

/// A number or a device limit, written as in front matter.
ExpressionPtr bound(const std::string& text) {
    const std::vector<Parameter> no_parameters;
    const std::string no_file;
    Lexer lexer(text, 0, no_file, 0);
    Scope scope;
    scope.parameters = &no_parameters;
    return parse_expression(lexer, scope);
}

Rule compare(const ExpressionPtr& left, Operator operation, const std::string& symbol,
             const std::string& right, const std::string& words) {
    const std::string text = left->text() + " " + symbol + " " + right;
    const std::size_t left_end = left->text().size(), right_begin = text.size() - right.size();
    std::vector<Node> nodes{
        {.operation = Operator::reference, .value = 0, .begin = 0, .end = left_end},
        {.operation = Operator::reference, .value = 1, .begin = right_begin, .end = text.size()},
        {.operation = operation,
         .kind = ExpressionKind::truth,
         .operands = {0, 1, -1},
         .begin = 0,
         .end = text.size()},
    };
    const Location location = left->location();
    return {{text, words, location.line, location.column},
            std::make_shared<Expression>(text, location, std::move(nodes), std::vector{left, bound(right)})};
}

Rule at_least(const ExpressionPtr& left, const std::string& right, const std::string& words) {
    return compare(left, Operator::greater_equal, ">=", right, words);
}

Rule at_most(const ExpressionPtr& left, const std::string& right, const std::string& words) {
    return compare(left, Operator::less_equal, "<=", right, words);
}

void add_launch_rules(const LaunchLines& launch, bool is_for_cuda, std::vector<Rule>& rules) {
    constexpr const char* kLargestExtent = "4294967295";
    for (const ExpressionPtr& extent : launch.block) {
        rules.push_back(at_least(extent, "1", "a block needs at least one thread in each direction"));
        rules.push_back(at_most(extent, kLargestExtent, "an extent of a block must fit 32 bits"));
    }
    if (is_for_cuda && launch.block.size() == 3)
        rules.push_back(at_most(launch.block[2], "64", "CUDA's blocks have at most 64 threads in z"));
    for (const ExpressionPtr& extent : launch.cluster) {
        rules.push_back(at_least(extent, "1", "a cluster needs at least one block in each direction"));
        rules.push_back(at_most(extent, kLargestExtent, "an extent of a cluster must fit 32 bits"));
    }
    for (const ExpressionPtr& bytes : {launch.dynamic_shared, launch.static_shared})
        if (bytes) rules.push_back(at_least(bytes, "0", "the bytes of shared memory can't be negative"));
}

void add_device_rules(const LaunchLines& launch, std::vector<Rule>& rules) {
    rules.push_back(at_most(launch.threads, "device.threads_per_block",
                            "a block may not have more threads than the device allows"));
    rules.push_back(at_most(launch.shared_bytes, "device.shared_bytes_per_block_optin",
                            "a block may not use more shared memory than the device has"));
    if (launch.static_shared)
        rules.push_back(
            at_most(launch.static_shared, "device.shared_bytes_per_block",
                    "shared memory that is declared static can't use more than the device gives without "
                    "opting in; declare it dynamic"));
}

}  // namespace

std::vector<Rule> implicit_rules(const FrontMatter& front_matter) {
    constexpr const char* kLevels = "ptxas has optimization levels from 0 to 3";
    // What the host runs, CUDA should run too.
    const bool is_for_cuda = front_matter.backends != std::vector{Backend::hip};
    std::vector<Rule> rules;
    add_launch_rules(front_matter, is_for_cuda, rules);
    if (front_matter.opt_level) {
        rules.push_back(at_least(front_matter.opt_level, "0", kLevels));
        rules.push_back(at_most(front_matter.opt_level, "3", kLevels));
    }
    add_device_rules(front_matter, rules);
    for (std::size_t i = 1; i < front_matter.kernels.size(); ++i) {
        add_launch_rules(front_matter.kernels[i].launch, is_for_cuda, rules);
        add_device_rules(front_matter.kernels[i].launch, rules);
    }
    return rules;
}

}  // namespace kiln
