// SPDX-License-Identifier: Apache-2.0
//
// Finds a layout of the tiles in shared memory without bank conflicts, by trying the template's layout
// parameters (PAD, SWIZZLE and similar). Each variant is compiled and recorded.
#pragma once

#include <kiln/tools/analyze.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inspect/host_recorder.h"

namespace kiln {

/// A variant that differs only in its layout.
struct LayoutChoice {
    Variant variant;
    std::string change;  ///< "PAD=2", "SWIZZLE=true PAD=0"
    /// More than the analysed variant; may be negative. As declared or, once it is compiled for the target,
    /// as compiled.
    std::int64_t shared_bytes_more;
};

/// All layouts that the template offers, the cheapest first. A parameter counts as a layout parameter if its
/// name says so, or if its values change the shared bytes by at most a quarter, and if grid, block and
/// problem stay the same.
std::vector<LayoutChoice> layout_choices(const Variant& variant, const Sizes& sizes);

/// A layout that was tried.
struct LayoutFound {
    LayoutChoice choice;
    double excess = 0;  ///< of wavefronts over their ideal
    std::optional<Occupancy> occupancy;
};

struct LayoutSearch {
    std::optional<LayoutFound> best;  ///< without excess, the cheapest; else with the least
    std::vector<std::string> tried;   ///< their changes
};

/// Stops at the first layout without excess, and after a number of tries. options: banks and lanes. Layouts
/// that do not compile, or lead to misaligned accesses, are skipped. sizes: small ones, for recording.
/// shared_now: shared bytes of a block of the analysed variant, static and dynamic.
LayoutSearch find_layout(Service& target, HostRecorder& recorder, const Variant& variant, const Sizes& shape,
                         const Sizes& sizes, std::uint64_t shared_now, const RecorderOptions& options);

}  // namespace kiln
