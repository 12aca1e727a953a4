// SPDX-License-Identifier: Apache-2.0
//
// Which sizes to record a variant with, and how counts at those become counts at the sizes asked about.
//
// A recording watches some blocks of a launch. Two things may be too much: the work of one block, and the
// memory of the tensors. Where the shape asked about needs too much of either, sizes are lowered by steps of
// 128 (or of what the template wants multiples of), so that a size keeps its remainder: whole tiles stay
// whole, and rows that are aligned stay so.
//
// Counts of a block are taken to be affine in its work: a + b * work. That is exact where a loop repeats the
// same accesses, as over k in a matrix product, and what is outside of it (writing the result) happens once.
// Two recordings, at `less` and at `sizes`, give a and b. The whole grid has as many times more as it has
// blocks: blocks at the edges, of which few are among those recorded, count like any other.
#pragma once

#include <kiln/template.h>

#include <cstdint>
#include <optional>

namespace kiln {

/// A launch as far as its cost is concerned.
struct LaunchWork {
    Sizes sizes;
    std::uint64_t blocks = 0;
    double block_work = 0;      ///< flops of a block; where none are declared, bytes that it has to move
    double block_accesses = 0;  ///< roughly: what recording it costs
    double tensor_bytes = 0;
};
/// Throws VariantError.
LaunchWork launch_work(const Variant& variant, const Sizes& sizes);

struct RecordSizes {
    LaunchWork at;                   ///< the recording that is shown
    std::optional<LaunchWork> less;  ///< a second one, with less work per block; not set: `at` has all of it
};

/// accesses: the most of one block. bytes: of all tensors.
struct RecordBudget {
    double accesses = 2.5e6;  ///< some 20 ms
    double bytes = 12e6;      ///< filling them with random numbers takes some 60 ms
};

/// What the host's variant is to be recorded with, for a shape on the target. The shape's own sizes where the
/// budget allows, else the next smaller ones that are affordable; where sizes can't be lowered far enough, the
/// smallest that there are. A grid that follows the device (`device.multiprocessors`) has other blocks on the
/// host: they are scaled by their work like any. Throws VariantError.
RecordSizes record_sizes(const Variant& host_variant, const LaunchWork& shape,
                         const RecordBudget& budget = {});

/// From counts of a block in one or two recordings to the whole grid of a shape.
class Scaling {
  public:
    Scaling(const RecordSizes& recorded, const LaunchWork& shape)
        : shape_(shape),
          at_(recorded.at.block_work),
          less_(recorded.less ? recorded.less->block_work : at_) {}

    /// at, less: of a block on average. Without a second recording `less` does not matter, and the count is
    /// taken to be proportional to the work.
    double whole_grid(double at, double less) const;

  private:
    LaunchWork shape_;
    double at_, less_;
};

}  // namespace kiln
