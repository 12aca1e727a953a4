// SPDX-License-Identifier: Apache-2.0
//
// What a variant's kernels are called and launched with. kiln-tools has a copy of it.
#include "template/kernel_launch.h"

#include "template/template_data.h"

namespace kiln {

std::size_t kernel_count(const Variant& variant) { return VariantAccess::data(variant).others.size() + 1; }

KernelLaunch kernel_launch(const Variant& variant, std::size_t kernel) {
    const VariantData& data = VariantAccess::data(variant);
    const KernelLines& lines = data.origin->content->front_matter.kernels[kernel];
    const LaunchData& launch = data.launch(kernel);
    KernelLaunch result{lines.name.name,
                        launch.block,
                        launch.cluster,
                        launch.dynamic_shared_bytes,
                        launch.static_shared_bytes,
                        launch.dependent,
                        launch.cooperative,
                        lines.arguments};
    // A template with one kernel has its arguments in their order.
    if (data.others.empty() && data.origin->content->front_matter.variables.empty())
        for (std::size_t i = 0; i < data.places.size() + data.tensor_maps.size(); ++i)
            result.arguments.push_back(i);
    return result;
}

}  // namespace kiln
