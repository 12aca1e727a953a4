// SPDX-License-Identifier: Apache-2.0
//
// Joins a variant's recordings with its binary: the access width that the compiler chose per line, and totals
// over all lines, scaled to the whole grid of the requested shape, and added up over the template's kernels.
#pragma once

#include <kiln/tools/analyze.h>

#include <optional>
#include <vector>

#include "inspect/host_recorder.h"
#include "inspect/record_sizes.h"

namespace kiln {

struct RecordedVariant {
    RecordSizes sizes;
    std::vector<Recording> at;    ///< of each kernel
    std::vector<Recording> less;  ///< likewise, where sizes.less is set; else empty
};

/// The sizes to record a host's variant with, for a shape on the target. Where the template declares no flops, a few blocks run
/// at small sizes to find out what a block does; `options` then has `first_blocks` where blocks wait for those before them.
/// record_at: the sizes that are wanted, if any. Throws what HostRecorder throws, and VariantError.
RecordSizes chosen_sizes(HostRecorder& recorder, const AnyKernel& kernel, const LaunchWork& shape,
                         const RecordBudget& budget, const std::optional<Sizes>& record_at,
                         RecorderOptions& options);

/// Records at one or two sizes, as the budget of `options` requires. Throws what HostRecorder throws.
RecordedVariant record_variant(HostRecorder& recorder, const AnyKernel& kernel, const RecordSizes& sizes,
                               const RecorderOptions& options);

/// All kernels' in one, by place. What two kernels do at one place, in a function that both call, are two sites, and two problems.
Recording added_up(const std::vector<Recording>& recordings);

/// The sites of shared memory, each with its width in the binary: of the widths that the recording can merge
/// to, the widest one on that line; as written if none occurs, or if the binary is not known.
std::vector<SharedLine> believed_lines(const Recording& recording,
                                       const std::vector<CompiledAccess>& compiled);

/// Counts of global memory, as the binary accesses it.
struct GlobalCount {
    std::uint64_t sectors = 0, ideal = 0;
    bool merged = false;  ///< the binary has a wider access at this line than the source
};
GlobalCount believed_global(const GlobalSite& site, const std::vector<CompiledAccess>& compiled);

/// Over the whole grids of a shape.
struct ScaledCounts {
    double shared_wavefronts = 0, shared_ideal = 0;
    double global_sectors = 0, global_ideal = 0;
    double loaded_bytes = 0;  ///< that lanes request from global memory
};
ScaledCounts scaled_counts(const RecordedVariant& recorded, const LaunchWork& shape,
                           const std::vector<CompiledAccess>& compiled);

/// What the accesses of one line request from global memory, over the whole grids of a shape.
struct LineSectors {
    int line = 0;
    double sectors = 0, ideal = 0;
};
std::vector<LineSectors> scaled_sectors(const RecordedVariant& recorded, const LaunchWork& shape,
                                        const std::vector<CompiledAccess>& compiled);

}  // namespace kiln
