// SPDX-License-Identifier: Apache-2.0
//
// The kernels of a variant, in the order in which a launch of it launches them.
#pragma once

#include <kiln/template.h>

#include <cstddef>
#include <string>
#include <vector>

namespace kiln {

struct KernelLaunch {
    std::string name;
    Dim3 block, cluster;  ///< cluster {1,1,1}: none
    std::size_t dynamic_shared_bytes = 0;
    std::size_t static_shared_bytes = 0;  ///< as declared
    bool dependent = false;               ///< may begin before the kernel before it has ended
    /// Of each of its arguments the place among those of the template, where tensor maps follow the others.
    std::vector<std::size_t> arguments;
};

std::size_t kernel_count(const Variant& variant);
KernelLaunch kernel_launch(const Variant& variant, std::size_t kernel);
/// As Variant::grid, which is that of the first kernel.
Dim3 grid_of_kernel(const Variant& variant, std::size_t kernel, void* const* arguments);
Dim3 grid_of_kernel(const Variant& variant, std::size_t kernel, void* const* arguments, int multiprocessors);

}  // namespace kiln
