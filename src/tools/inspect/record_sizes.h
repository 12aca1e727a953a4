// SPDX-License-Identifier: Apache-2.0
//
// Chooses the sizes that a variant is recorded with, and scales the counts to the requested sizes.
//
// A recording watches some blocks of a launch. Two things may be too much: the work of one block, and the
// memory of the tensors. If the requested shape needs too much of either, sizes are lowered by steps of 128
// (or of the multiple that the template requires), so that a size keeps its remainder: complete tiles stay
// complete, and aligned rows stay aligned. Where memory is too much, sizes that `offsets to` joins are lowered together, so that
// packed sequences, such as the rows of a sparse matrix, stay as long on average.
//
// Counts of a block are assumed to be affine in the flops that the template declares for it: a + b * work. That is exact if a loop repeats the
// same accesses, as over k in a GEMM, and the rest (storing the result) happens once. Two recordings, at
// `less` and at `sizes`, give a and b. Counts of the grid are those of a block times the number of blocks.
// The first block and the last, which is often nearly empty, count once; others at the edges, few of which are recorded, count like any.
// The sizes are those for the first kernel of a template; each of several is scaled by its own grid.
// Where no flops are declared, what a block does is measured instead: measured_sizes.h.
#pragma once

#include <kiln/template.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// The properties of a launch that determine the cost of recording it.
struct LaunchWork {
    Sizes sizes;
    std::uint64_t blocks = 0;                  ///< of the first kernel
    std::vector<std::uint64_t> kernel_blocks;  ///< of each kernel; 0: it is left out
    double block_work = 0;                     ///< flops of a block; 0: none are declared
    /// Where they were measured: what the counts of a block of each kernel are affine in, in place of block_work.
    std::vector<double> kernel_work;
    double block_accesses = 0;  ///< roughly proportional to the time of recording it
    double tensor_bytes = 0;
    std::vector<double> mean_lengths;  ///< of the packed sequences of each tensor with Fill::offsets

    /// The same of one of several kernels, whose grid must not be empty. Its blocks are taken to do all the declared work.
    LaunchWork of_kernel(std::size_t kernel) const;
};
/// Of the first kernel. Throws VariantError.
LaunchWork launch_work(const Variant& variant, const Sizes& sizes);

struct RecordSizes {
    LaunchWork at;                   ///< the recording that is shown
    std::optional<LaunchWork> less;  ///< a second one, with less work per block; not set: `at` has all of it
    LaunchWork shape = {};           ///< what counts are scaled to: the shape; where that can't be done, `at`
    std::string not_scaled = {};     ///< why it can't; empty: it can
};

/// accesses: the most of one block. bytes: of all tensors.
struct RecordBudget {
    double accesses = 2.5e6;  ///< some 20 ms
    double bytes = 12e6;      ///< filling them with random numbers takes some 60 ms
};

/// The sizes to record the host's variant with, for a shape on the target, of a template that declares flops: those of the shape if the budget
/// allows, else the next smaller ones within the budget, else the smallest possible. A grid that depends on
/// the device (`device.multiprocessors`) has other blocks on the host; they are scaled by their work like any.
/// Throws VariantError.
RecordSizes record_sizes(const Variant& host_variant, const LaunchWork& shape,
                         const RecordBudget& budget = {});

/// From counts of a block in one or two recordings to the whole grid of a shape.
class Scaling {
  public:
    Scaling(const RecordSizes& recorded, const LaunchWork& shape)
        : shape_(shape),
          at_(recorded.at.block_work),
          less_(recorded.less ? recorded.less->block_work : at_) {}

    /// at, less: of a block on average. Without a second recording `less` is ignored, and the count is
    /// assumed to be proportional to the work.
    double whole_grid(double at, double less) const;

  private:
    LaunchWork shape_;
    double at_, less_;
};

}  // namespace kiln
