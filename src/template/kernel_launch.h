// SPDX-License-Identifier: Apache-2.0
//
// The kernels of a variant, in the order in which a launch of it launches them.
#pragma once

#include <kiln/template.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct KernelLaunch {
    std::string name;
    Dim3 block, cluster;  ///< cluster {1,1,1}: none
    std::size_t dynamic_shared_bytes = 0;
    std::size_t static_shared_bytes = 0;  ///< as declared
    bool dependent = false;               ///< may begin before the kernel before it has ended
    bool cooperative = false;             ///< all blocks run at once
    /// Of each of its arguments the place among those of the template, where tensor maps follow the others.
    std::vector<std::size_t> arguments;
};

/// A variable of the module that a launch copies a tensor to, before its kernels.
struct VariableCopy {
    std::string_view name;     ///< as the variant has it
    std::size_t argument = 0;  ///< of Variant::arguments(): the address of the tensor
    std::size_t bytes = 0;
};
/// For these launch arguments; empty for most templates. Throws VariantError for a tensor whose size can't be computed.
std::vector<VariableCopy> variable_copies(const Variant& variant, void* const* arguments);
/// Whether a launch has such copies.
bool has_variable_copies(const Variant& variant);

std::size_t kernel_count(const Variant& variant);
KernelLaunch kernel_launch(const Variant& variant, std::size_t kernel);
/// As Variant::grid, which is that of the first kernel.
Dim3 grid_of_kernel(const Variant& variant, std::size_t kernel, void* const* arguments);
Dim3 grid_of_kernel(const Variant& variant, std::size_t kernel, void* const* arguments, int multiprocessors);

}  // namespace kiln
