// SPDX-License-Identifier: Apache-2.0
//
// The resources that a block needs, from its variant and its binary.
#include "inspect/resource_needs.h"

#include <kiln/error.h>

#include <algorithm>

namespace kiln {

std::optional<BlockNeeds> block_needs(const Variant& variant, const Resources& resources,
                                      const Target& target) {
    if (!resources.registers) return std::nullopt;
    BlockNeeds needs;
    needs.threads = static_cast<int>(variant.block().count());
    needs.registers = *resources.registers;
    // gfx908 has a separate file of accumulation registers; later architectures include them.
    if (target.arch.starts_with("gfx908"))
        needs.registers = std::max(needs.registers, resources.accumulator_registers.value_or(0));
    needs.static_shared_bytes = resources.static_shared_bytes.value_or(variant.static_shared_bytes());
    needs.dynamic_shared_bytes = variant.dynamic_shared_bytes();
    return needs;
}

std::optional<Occupancy> occupancy_of(const Variant& variant, const Resources& resources,
                                      const Target& target) {
    if (target.backend == Backend::host) return std::nullopt;
    const auto needs = block_needs(variant, resources, target);
    if (!needs) return std::nullopt;
    try {
        return occupancy(*needs, target.backend, target.arch);
    } catch (const UsageError&) {
        return std::nullopt;
    }
}

}  // namespace kiln
