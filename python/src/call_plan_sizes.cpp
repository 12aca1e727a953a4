// SPDX-License-Identifier: Apache-2.0
//
// The part of CallPlan that gets sizes from the shapes of tensors, and holds the shapes against them.
#include <kiln/error.h>
#include <kiln/extents.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "call_plan.h"

namespace nb = nanobind;

namespace kiln::python {
namespace {

constexpr std::size_t kMostShapes = 1024;  // that are remembered, of one kernel

/// Which of the factors is the only one that is not known, and only once; nullopt: there is none.
std::optional<std::size_t> unknown_factor(const Extent& extent, std::uint32_t known) {
    std::optional<std::size_t> found;
    for (const std::size_t size : extent.factors) {
        if ((known & CallPlan::bit_of(size)) != 0) continue;
        if (found) return std::nullopt;
        found = size;
    }
    return found;
}

}  // namespace

/// All sizes by the numbers of a call, those given and all extents, for which every extent is right.
struct CallPlan::Memory {
    nb::ft_mutex mutex;
    std::unordered_map<std::string, SizeValues> sizes;
};

void CallPlan::find_extents() {
    memory_ = std::make_shared<Memory>();
    for (const TensorExtentRules& tensor : tensor_extent_rules(variant_)) {
        const auto argument = std::ranges::find(arguments_, tensor.name, &CallArgument::name);
        if (argument == arguments_.end() || argument->kind != CallArgument::Kind::tensor) continue;
        argument->has_extents = true;
        for (const ExtentRule& rule : tensor.extents) {
            Extent& extent = argument->extents.emplace_back();
            if (rule.is_product && rule.sizes.empty()) {
                extent.kind = Extent::Kind::constant;
                extent.value = rule.factor;
                continue;
            }
            extent.factor = rule.factor;
            for (const std::string& name : rule.sizes) {
                const auto size = std::ranges::find(arguments_, name, &CallArgument::name);
                if (size == arguments_.end()) {  // not of this operation: its default
                    extent.factors.clear();
                    break;
                }
                extent.factors.push_back(size->size);
            }
            if (extent.factor == 0) extent.factors.clear();
            if (extent.factor == 1 && extent.factors.size() == 1) {
                extent.kind = Extent::Kind::size;
                extent.value = static_cast<std::int64_t>(extent.factors[0]);
                arguments_[sizes_[extent.factors[0]]].is_told = true;
            } else {
                has_computed_ = true;
            }
        }
    }
}

void CallPlan::resolve(SizeValues& sizes, std::uint32_t& known, const ArrayViews& arrays) const {
    const std::uint32_t given = known;
    std::array<const CallArgument*, kMostCallArguments> told_by{};
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
        const CallArgument& argument = arguments_[i];
        if (!argument.has_extents) continue;
        for (std::size_t axis = 0; axis < argument.extents.size(); ++axis) {
            const Extent& extent = argument.extents[axis];
            const std::int64_t found = arrays[i].shape[axis];
            if (extent.kind == Extent::Kind::constant) {
                if (found != extent.value)
                    wrong_extent(argument, arrays[i], axis, std::to_string(extent.value));
            } else if (extent.kind == Extent::Kind::size) {
                const auto place = static_cast<std::size_t>(extent.value);
                const std::uint32_t bit = bit_of(place);
                if ((known & bit) == 0) {
                    sizes[place] = found;
                    told_by[place] = &argument;
                    known |= bit;
                } else if (sizes[place] != found) {
                    const std::string size = arguments_[sizes_[place]].name;
                    wrong_extent(
                        argument, arrays[i], axis,
                        std::to_string(sizes[place]) +
                            ((given & bit) != 0 ? ", which is what " + size + " was given as"
                                                : ", the " + size + " of '" + told_by[place]->name + "'"));
                }
            }
        }
    }
    std::string key;
    if (has_computed_) {
        key = key_of(sizes, known, arrays);
        const nb::ft_lock_guard lock(memory_->mutex);
        if (const auto found = memory_->sizes.find(key); found != memory_->sizes.end()) {
            sizes = found->second;
            return;
        }
    }
    if (has_computed_) tell_factors(sizes, known, arrays);
    for (std::size_t i = 0; i < sizes_.size(); ++i)
        if ((known & bit_of(i)) == 0)
            throw nb::type_error((name_ + ": the size '" + arguments_[sizes_[i]].name +
                                  "' can't be told from the arrays; give it by name")
                                     .c_str());
    if (!has_computed_) return;
    check_computed(sizes, arrays);
    const nb::ft_lock_guard lock(memory_->mutex);
    if (memory_->sizes.size() >= kMostShapes) memory_->sizes.clear();
    memory_->sizes.emplace(std::move(key), sizes);
}

std::string CallPlan::key_of(const SizeValues& sizes, std::uint32_t known, const ArrayViews& arrays) const {
    std::string key;
    const auto add = [&](const void* bytes, std::size_t count) {
        key.append(static_cast<const char*>(bytes), count);
    };
    add(&known, sizeof known);
    add(sizes.data(), sizes_.size() * sizeof sizes[0]);
    for (std::size_t i = 0; i < arguments_.size(); ++i)
        if (arguments_[i].has_extents)
            add(arrays[i].shape.data(), arguments_[i].extents.size() * sizeof arrays[i].shape[0]);
    return key;
}

// Extents such as kv_heads * group tell the one size that is still unknown, which may be what others wait
// for.
void CallPlan::tell_factors(SizeValues& sizes, std::uint32_t& known, const ArrayViews& arrays) const {
    for (bool is_new = true; is_new;) {
        is_new = false;
        for (std::size_t i = 0; i < arguments_.size(); ++i)
            for (std::size_t axis = 0; axis < arguments_[i].extents.size(); ++axis) {
                const Extent& extent = arguments_[i].extents[axis];
                const auto place = unknown_factor(extent, known);
                if (!place) continue;
                std::int64_t product = extent.factor;
                bool fits = true;
                for (const std::size_t size : extent.factors)
                    if (size != *place)
                        fits = fits && !__builtin_mul_overflow(product, sizes[size], &product);
                if (!fits || product <= 0) continue;
                if (arrays[i].shape[axis] % product != 0)
                    wrong_extent(arguments_[i], arrays[i], axis, "a multiple of " + std::to_string(product));
                sizes[*place] = arrays[i].shape[axis] / product;
                known |= bit_of(*place);
                is_new = true;
            }
    }
}

void CallPlan::check_computed(const SizeValues& sizes, const ArrayViews& arrays) const {
    Sizes named;
    for (std::size_t i = 0; i < sizes_.size(); ++i) named[arguments_[sizes_[i]].name] = sizes[i];
    for (const TensorExtents& tensor : tensor_extents(variant_, named)) {
        const auto argument = std::ranges::find(arguments_, tensor.name, &CallArgument::name);
        if (argument == arguments_.end()) continue;
        const ArrayView& array = arrays[static_cast<std::size_t>(argument - arguments_.begin())];
        for (std::size_t axis = 0; axis < argument->extents.size(); ++axis)
            if (array.shape[axis] != tensor.extents[axis])
                wrong_extent(*argument, array, axis, std::to_string(tensor.extents[axis]));
    }
}

std::vector<std::string> CallPlan::told_by(const std::vector<std::string>& tensors) const {
    std::uint32_t known = 0;
    for (bool is_new = true; is_new;) {
        is_new = false;
        for (const CallArgument& argument : arguments_) {
            if (std::ranges::find(tensors, argument.name) == tensors.end()) continue;
            for (const Extent& extent : argument.extents)
                if (const auto size = unknown_factor(extent, known)) {
                    known |= bit_of(*size);
                    is_new = true;
                }
        }
    }
    std::vector<std::string> told;
    for (std::size_t i = 0; i < sizes_.size(); ++i)
        if ((known & bit_of(i)) != 0) told.push_back(arguments_[sizes_[i]].name);
    return told;
}

Sizes CallPlan::sizes_of(const std::map<std::string, std::vector<std::int64_t>>& shapes,
                         const Sizes& given) const {
    // The same rules as for arrays: views that have a shape only. Tensors that are not given tell nothing.
    ArrayViews arrays(arguments_.size());
    SizeValues sizes{};
    std::uint32_t known = 0;
    for (const auto& [name, value] : given) {
        const auto argument = std::ranges::find(arguments_, name, &CallArgument::name);
        if (argument == arguments_.end() || argument->kind != CallArgument::Kind::size)
            throw UsageError(name_ + " has no size '" + name + "'");
        sizes[argument->size] = value;
        known |= bit_of(argument->size);
    }
    for (const auto& [name, shape] : shapes) {
        const auto argument = std::ranges::find(arguments_, name, &CallArgument::name);
        if (argument == arguments_.end() || argument->kind != CallArgument::Kind::tensor)
            throw UsageError(name_ + " has no tensor '" + name + "'");
    }
    CallPlan partial = *this;
    partial.memory_ = std::make_shared<Memory>();
    partial.has_computed_ = false;
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
        CallArgument& argument = partial.arguments_[i];
        const auto found = shapes.find(argument.name);
        if (found == shapes.end()) {
            argument.has_extents = false;
            argument.extents.clear();
            continue;
        }
        if (!argument.has_extents) continue;
        if (found->second.size() != argument.extents.size() || argument.extents.size() > kMostDimensions)
            fail_value(argument, "has " + std::to_string(found->second.size()) +
                                     " dimensions, and the kernel takes " +
                                     std::to_string(argument.extents.size()));
        arrays[i].ndim = static_cast<int>(found->second.size());
        std::ranges::copy(found->second, arrays[i].shape.begin());
        for (const Extent& extent : argument.extents)
            if (extent.kind == Extent::Kind::computed) partial.has_computed_ = true;
    }
    partial.resolve(sizes, known, arrays);
    Sizes result;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
        const CallArgument& argument = arguments_[sizes_[i]];
        if (sizes[i] < 0) fail_value(argument, "is " + std::to_string(sizes[i]) + ", and no size is below 0");
        result[argument.name] = sizes[i];
    }
    return result;
}

}  // namespace kiln::python
