// SPDX-License-Identifier: Apache-2.0
//
// Chooses the sizes to record a variant with where the template declares no flops, so that nothing says how much a block does.
//
// That is measured, as the bytes that a block accesses. At small sizes, one size after the other is raised: one that leaves
// these alone, as m and n of a GEMM do, changes the number of blocks only, and is lowered first where tensors
// are too large. A size that changes them, such as k, is kept where that is possible. If one has to be lowered, the bytes at
// three values of it must lie on a line; counts are then scaled along that. Both the largest block and the mean may show either:
// the mean has edges of the grid, and the largest block has the longest of unequal loops. If they do not, or if two such sizes are lowered,
// counts at the shape are not known, and the result says so.
//
// The number of blocks must follow a size as it does at the shape: where a grid stops growing, each block does more, and below a
// tile's width it does less. Sizes are not lowered beyond such a place, or else counts are not known.
#pragma once

#include <kiln/template.h>

#include <functional>
#include <string>
#include <vector>

#include "inspect/record_sizes.h"

namespace kiln {

/// What the threads of a block access, in a few blocks of a launch.
struct BlockBytes {
    double most = 0;  ///< of the block with the most, which is not at an edge
    double mean = 0;  ///< without the grid's last block
};
/// Of each kernel; nothing of those that are left out.
using MeasureBlocks = std::function<std::vector<BlockBytes>(const LaunchWork&)>;

/// Counts that are of the whole launch at these sizes. why: they can't be scaled to the shape; empty: it is the shape.
RecordSizes not_scaled(LaunchWork at, std::string why);

/// The sizes to record the host's variant with. Throws VariantError, and what `measure` throws.
RecordSizes measured_sizes(const Variant& host_variant, const Sizes& shape, const RecordBudget& budget,
                           const MeasureBlocks& measure);

}  // namespace kiln
