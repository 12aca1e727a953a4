// SPDX-License-Identifier: Apache-2.0
//
// A variant's recordings joined with what its binary holds: which width the compiler chose at each line, and
// sums over all lines, scaled to the whole grid of the shape asked about.
#pragma once

#include <kiln/tools/analyze.h>

#include <optional>
#include <vector>

#include "inspect/host_recorder.h"
#include "inspect/record_sizes.h"

namespace kiln {

struct RecordedVariant {
    RecordSizes sizes;
    Recording at;
    std::optional<Recording> less;  ///< where sizes.less is set
};

/// Records at one or two sizes, whichever the budget of `options` needs. Throws what HostRecorder throws.
RecordedVariant record_variant(HostRecorder& recorder, const AnyKernel& kernel, const RecordSizes& sizes,
                               const RecorderOptions& options);

/// The sites of shared memory, each with the width that the binary has at its line: of those that the
/// recording can merge to, the widest that occurs there; as written where none does, or nothing is known.
std::vector<SharedLine> believed_lines(const Recording& recording,
                                       const std::vector<CompiledAccess>& compiled);

/// Counts of global memory, as the binary accesses it.
struct GlobalCount {
    std::uint64_t sectors = 0, ideal = 0;
    bool merged = false;  ///< the binary has a wider access at this line than the source
};
GlobalCount believed_global(const GlobalSite& site, const std::vector<CompiledAccess>& compiled);

/// Over the whole grid of a shape.
struct ScaledCounts {
    double shared_wavefronts = 0, shared_ideal = 0;
    double global_sectors = 0, global_ideal = 0;
    double loaded_bytes = 0;  ///< that lanes ask of global memory
};
ScaledCounts scaled_counts(const RecordedVariant& recorded, const LaunchWork& shape,
                           const std::vector<CompiledAccess>& compiled);

/// What the accesses of one line ask of global memory, over the whole grid of a shape.
struct LineSectors {
    int line = 0;
    double sectors = 0, ideal = 0;
};
std::vector<LineSectors> scaled_sectors(const RecordedVariant& recorded, const LaunchWork& shape,
                                        const std::vector<CompiledAccess>& compiled);

}  // namespace kiln
