// SPDX-License-Identifier: Apache-2.0
//
// Sizes are told from tensors by the template's own lines; a key's words are little-endian, so that their first bytes
// are the value in any narrower integer type.
#include "operation/signature.h"

#include <kiln/error.h>

#include <algorithm>
#include <bit>

#include "base/words.h"
#include "format/format.h"

namespace kiln {
namespace {

static_assert(std::endian::native == std::endian::little);

bool is_unsigned(std::string_view type) { return type.starts_with("unsigned"); }
bool is_wide(std::string_view type) { return type.find("long long") != std::string_view::npos; }
bool is_integer_of_four_or_eight_bytes(std::string_view type) {
    return type == "int" || type == "unsigned int" || type == "long long" || type == "unsigned long long";
}

Dim3 grid_for(const Variant& variant, const Sizes& sizes) {
    std::array<std::int64_t, kMostArguments> values{};
    std::array<void*, kMostArguments> arguments{};
    std::size_t count = 0;
    for (const KernelArgument& argument : variant.arguments()) {
        if (const auto size = sizes.find(argument.name); size != sizes.end()) values[count] = size->second;
        arguments[count] = &values[count];
        ++count;
    }
    return variant.grid(arguments.data());
}

std::size_t rounded_up(std::size_t bytes) {
    return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

}  // namespace

Signature::Signature(const Variant& variant) : name_(variant.template_name()) {
    const Template of = variant.origin();
    if (!of.is_runnable())
        throw UsageError(
            name_ +
            " can't be an operation: every argument of its kernel must be declared by a `size`, `input`, "
            "`output`, `inout`, `scratch` or `tensormap` line");
    for (const KernelArgument& argument : variant.arguments()) {
        const auto tensor = std::ranges::find(of.tensors(), argument.name, &TensorArgument::name);
        const bool is_size = tensor == of.tensors().end();
        if (!is_size && tensor->role == TensorRole::scratch) continue;
        if (is_size) {
            if (!is_integer_of_four_or_eight_bytes(argument.type))
                throw UsageError(name_ + " can't be an operation: its size " + argument.name +
                                 " is of type " + argument.type +
                                 "; int, unsigned int, long long and unsigned long long are possible");
            if (size_count_ == kMostSizes)
                throw UsageError(
                    formatted("{} can't be an operation: it has more than {} sizes", name_, kMostSizes));
            sizes_[size_count_++] = {arguments_.size(), is_wide(argument.type), !is_unsigned(argument.type)};
        }
        arguments_.push_back(
            {argument.name, argument.type, is_size, is_size ? TensorRole::input : tensor->role});
    }
    if (variant.arguments().size() > kMostArguments)
        throw UsageError(
            formatted("{} can't be an operation: its kernel has {} arguments, and {} are possible", name_,
                      variant.arguments().size(), kMostArguments));
}

ShapeKey Signature::key(const Sizes& given) const {
    ShapeKey key{};
    std::vector<std::string> names;
    for (std::size_t i = 0; i < size_count_; ++i) {
        const std::string& name = arguments_[sizes_[i].argument].name;
        names.push_back(name);
        const auto found = given.find(name);
        if (found == given.end()) throw UsageError(name_ + ": the size " + name + " is missing");
        const std::int64_t most = sizes_[i].is_wide ? std::numeric_limits<std::int64_t>::max()
                                  : sizes_[i].is_signed
                                      ? std::numeric_limits<std::int32_t>::max()
                                      : std::int64_t{std::numeric_limits<std::uint32_t>::max()};
        if (found->second < 0 || found->second > most)
            throw UsageError(
                formatted("{}: the size {} is {}; it can be 0 to {}", name_, name, found->second, most));
        key[i] = found->second;
    }
    for (const auto& [name, value] : given)
        if (std::ranges::find(names, name) == names.end())
            throw UsageError(name_ + " has no size " + name + did_you_mean(name, names) +
                             " (its sizes: " + join(names) + ")");
    return key;
}

Sizes Signature::sizes(const ShapeKey& key) const {
    Sizes sizes;
    for (std::size_t i = 0; i < size_count_; ++i) sizes[arguments_[sizes_[i].argument].name] = key[i];
    return sizes;
}

std::string Signature::text(const ShapeKey& key) const {
    std::vector<std::string> words;
    for (std::size_t i = 0; i < size_count_; ++i)
        words.push_back(formatted("{}={}", arguments_[sizes_[i].argument].name, key[i]));
    return join(words, " ");
}

std::optional<std::size_t> Signature::size_index(std::string_view name) const {
    for (std::size_t i = 0; i < size_count_; ++i)
        if (arguments_[sizes_[i].argument].name == name) return i;
    return std::nullopt;
}

std::optional<std::size_t> Signature::argument_index(std::string_view name) const {
    const auto found = std::ranges::find(arguments_, name, &OperationArgument::name);
    if (found == arguments_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - arguments_.begin());
}

ArgumentPlan argument_plan(const Signature& signature, const Variant& variant, const Sizes& sizes) {
    const Problem problem = variant.problem(sizes);
    ArgumentPlan plan;
    const auto byte = [](std::size_t value) { return static_cast<std::uint8_t>(value); };
    if (variant.arguments().size() > kMostArguments)
        throw UsageError(formatted("{} has more than {} arguments", variant.template_name(), kMostArguments));
    for (const KernelArgument& argument : variant.arguments()) {
        if (const auto size = signature.size_index(argument.name)) {
            plan.sources.push_back({ArgumentSource::Kind::size, byte(*size)});
            continue;
        }
        if (const auto passed = signature.argument_index(argument.name)) {
            plan.sources.push_back({ArgumentSource::Kind::passed, byte(*passed)});
            continue;
        }
        const auto tensor = std::ranges::find(problem.tensors, argument.name, &Tensor::name);
        if (tensor == problem.tensors.end() || tensor->role != TensorRole::scratch)
            throw UsageError(variant.template_name() +
                             " can't take part in this operation: nobody passes its argument " +
                             argument.name);
        plan.sources.push_back({ArgumentSource::Kind::scratch, byte(plan.scratch.size())});
        const bool is_zero = tensor->fill == Fill::zero;
        std::size_t& end = is_zero ? plan.zero_bytes : plan.plain_bytes;
        plan.scratch.push_back({is_zero, end});
        end += rounded_up(tensor->size_bytes());
    }
    plan.is_as_passed =
        std::ranges::equal(variant.arguments(), signature.arguments(),
                           [](const auto& a, const auto& b) { return a.name == b.name && a.type == b.type; });
    plan.grid = grid_for(variant, sizes);
    return plan;
}

}  // namespace kiln
