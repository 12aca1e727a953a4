// SPDX-License-Identifier: Apache-2.0
//
// Which other layout of the tiles in shared memory has no bank conflicts: the template's own parameters for it
// (PAD, SWIZZLE and their like) are tried, each variant being compiled and recorded.
#pragma once

#include <kiln/tools/analyze.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inspect/host_recorder.h"

namespace kiln {

/// A variant that differs in its layout alone.
struct LayoutChoice {
    Variant variant;
    std::string change;  ///< "PAD=2", "SWIZZLE=true PAD=0"
    /// Than the variant at hand; may be negative. As declared, or once it is compiled for the target, as it is.
    std::int64_t shared_bytes_more;
};

/// All that the template offers, the cheapest first. A parameter is one of layout when it is named for it, or
/// when its values move the shared bytes by a quarter at most; and all else stays: grid, block, problem.
std::vector<LayoutChoice> layout_choices(const Variant& variant, const Sizes& sizes);

/// A choice that was examined.
struct LayoutFound {
    LayoutChoice choice;
    double excess = 0;  ///< of wavefronts over their ideal
    std::optional<Occupancy> occupancy;
};

struct LayoutSearch {
    std::optional<LayoutFound> best;  ///< without excess, the cheapest; else with the least
    std::vector<std::string> tried;   ///< their changes
};

/// Stops at the first choice without excess, and after some tries. options: banks and lanes. A choice that
/// does not compile, or accesses memory at misaligned addresses, is none. sizes: small ones, for recording.
/// shared_now: what a block of the variant at hand has, static and dynamic.
LayoutSearch find_layout(Service& target, HostRecorder& recorder, const Variant& variant, const Sizes& shape,
                         const Sizes& sizes, std::uint64_t shared_now, const RecorderOptions& options);

}  // namespace kiln
