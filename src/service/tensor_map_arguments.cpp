// SPDX-License-Identifier: Apache-2.0
//
// What the template says of a map (template/tensor_maps.h), put as the device layer takes it.
#include "service/tensor_map_arguments.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "template/tensor_maps.h"

namespace kiln {
namespace {

TensorMapLayout layout_of(const TensorMapSpec& spec, const Variant& variant, void* const* arguments) {
    TensorMapLayout layout;
    layout.name = spec.name + " of " + variant.template_name();
    layout.tensor = spec.tensor;
    layout.type = spec.type;
    std::memcpy(&layout.base, arguments[spec.pointer_argument], sizeof(layout.base));
    layout.element_bytes = spec.element_bytes;
    layout.rank = spec.rank;
    layout.swizzle_bytes = static_cast<unsigned>(spec.swizzle_bytes);
    std::uint64_t stride = spec.element_bytes;
    for (int i = 0; i < spec.rank; ++i) {
        const auto from = static_cast<std::size_t>(spec.rank - 1 - i);  // theirs begin with the outermost
        layout.extents[i] = spec.extents[from];
        layout.box[i] = spec.box[from];
        layout.stride_bytes[i] = stride;
        stride *= spec.extents[from];
    }
    return layout;
}

}  // namespace

TensorMapArguments::TensorMapArguments(const Variant& variant, std::vector<std::size_t> argument_bytes)
    : count_(tensor_map_count(variant)), argument_bytes_(std::move(argument_bytes)) {}

bool TensorMapArguments::is_for(const Made& made, void* const* arguments) const {
    const std::byte* value = made.values.data();
    for (std::size_t i = 0; i < argument_bytes_.size(); ++i) {
        if (std::memcmp(value, arguments[i], argument_bytes_[i]) != 0) return false;
        value += argument_bytes_[i];
    }
    return true;
}

TensorMapArguments::Maps TensorMapArguments::for_launch(const Variant& variant, Driver& driver,
                                                        void* const* arguments) const {
    const bool shares = !argument_bytes_.empty();
    std::shared_ptr<const Made> made;
    if (shares) {
        const std::lock_guard lock(mutex_);
        made = last_;
    }
    if (!made || !is_for(*made, arguments)) {
        auto fresh = std::make_shared<Made>();
        const auto specs = tensor_map_specs(variant, arguments);
        fresh->maps.resize(specs.size());
        for (std::size_t i = 0; i < specs.size(); ++i)
            driver.encode_tensor_map(layout_of(specs[i], variant, arguments), fresh->maps[i].bytes);
        for (std::size_t i = 0; i < argument_bytes_.size(); ++i) {
            const auto* value = static_cast<const std::byte*>(arguments[i]);
            fresh->values.insert(fresh->values.end(), value, value + argument_bytes_[i]);
        }
        made = std::move(fresh);
        if (shares) {
            const std::lock_guard lock(mutex_);
            last_ = made;
        }
    }
    return Maps(made, &made->maps);
}

}  // namespace kiln
