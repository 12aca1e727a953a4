// SPDX-License-Identifier: Apache-2.0
//
// Variants of one problem next to the one that was chosen, on the same tensors, with interleaved launches: all of them
// once, then fewer and fewer with more and more launches. The fastest one is verified.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/benchmark.h"
#include "bench/verified_launch.h"
#include "run/shared_tensors.h"

namespace kiln::bench {

struct VariantTime {
    Variant variant;
    double us = 0;  ///< the median of its last launches
};

struct VariantTimes {
    VariantTime chosen;
    std::vector<VariantTime> others;    ///< the fastest first; those that are wrong are not among them
    std::vector<std::string> failures;  ///< a sentence for each that is wrong
};

/// chosen: a kernel on `shared`, verified. variants: to be compared with it; those that do not take the sizes or can't
/// be built are left out. adjust: as for `chosen`.
VariantTimes time_variants(Benchmark& bench, const VerifiedLaunch& chosen, SharedTensors& shared,
                           const std::vector<Variant>& variants, const std::function<void(Problem&)>& adjust);

}  // namespace kiln::bench
