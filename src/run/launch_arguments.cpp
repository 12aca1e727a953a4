// SPDX-License-Identifier: Apache-2.0
//
// Sizes in the types that the kernel declares, addresses of tensors.
#include "run/launch_arguments.h"

#include <kiln/error.h>

#include <algorithm>
#include <cstring>

#include "run/element.h"

namespace kiln {

namespace {

/// Calls f(T{}) with the integer type of that name.
template <class F>
void with_integer(const std::string& type, F&& f) {
    with_element(type, [&]<class T>(T value) {
        if constexpr (is_float<T>)
            throw UsageError("an argument of the type " + type + " is no integer");
        else
            f(value);
    });
}

}  // namespace

std::uint64_t packed_integer(const std::string& type, std::int64_t value) {
    std::uint64_t word = 0;
    with_integer(type, [&]<class T>(T) {
        const T typed = static_cast<T>(value);
        std::memcpy(&word, &typed, sizeof typed);
    });
    return word;
}

std::int64_t unpacked_integer(const std::string& type, std::uint64_t word) {
    std::int64_t value = 0;
    with_integer(type, [&]<class T>(T typed) {
        std::memcpy(&typed, &word, sizeof typed);
        value = static_cast<std::int64_t>(typed);
    });
    return value;
}

LaunchArguments::LaunchArguments(const Variant& variant, const Problem& problem,
                                 const std::vector<std::shared_ptr<GuardedTensor>>& tensors) {
    for (const KernelArgument& argument : variant.arguments()) {
        if (const auto size = problem.sizes.find(argument.name); size != problem.sizes.end()) {
            values_.push_back(packed_integer(argument.type, size->second));
            continue;
        }
        const auto tensor = std::find_if(tensors.begin(), tensors.end(), [&](const auto& candidate) {
            return candidate->tensor().name == argument.name;
        });
        if (tensor != tensors.end()) values_.push_back(reinterpret_cast<std::uintptr_t>((*tensor)->data()));
    }
    for (std::uint64_t& value : values_) pointers_.push_back(&value);
}

}  // namespace kiln
