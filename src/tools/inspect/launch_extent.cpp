// SPDX-License-Identifier: Apache-2.0
//
// A grid depends on integer arguments alone, so pointers may be null.
#include "inspect/launch_extent.h"

#include <kiln/error.h>

#include <cstdint>

namespace kiln {

std::vector<Dim3> grids_of(const Variant& variant, const Problem& problem) {
    // All hosts that Kiln supports are little-endian, so a pointer to a 64-bit word also points to the same
    // value as a narrower integer.
    std::vector<std::int64_t> words;
    for (const KernelArgument& argument : variant.arguments()) {
        const auto size = problem.sizes.find(argument.name);
        words.push_back(size == problem.sizes.end() ? 0 : size->second);
    }
    std::vector<void*> pointers;
    for (std::int64_t& word : words) pointers.push_back(&word);
    std::vector<Dim3> grids = variant.grids(pointers.data());
    if (grids.front().count() == 0)
        throw VariantError(variant.template_name() +
                           ": with these sizes there is nothing to launch: the grid is empty");
    return grids;
}

Dim3 grid_of(const Variant& variant, const Problem& problem) { return grids_of(variant, problem).front(); }

}  // namespace kiln
