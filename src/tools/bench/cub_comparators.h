// SPDX-License-Identifier: Apache-2.0
//
// CUB's functions as comparators of a row.
#pragma once

#include "bench/comparator_run.h"
#include "bench/cub.h"

namespace kiln::bench {

/// CUB's sum of the same array of float.
void add_cub_sum(Benchmark& bench, BenchSuite& suite, CubFunction& cub, ComparatorRun& run, Aim aim);

/// CUB's histogram of the same bytes. Each call sets its counts, so Kiln's variant must have SET=true. counts: memory for
/// CUB's, which must live until run.time().
void add_cub_histogram(Benchmark& bench, BenchSuite& suite, CubFunction& cub, ComparatorRun& run,
                       Buffer& counts, Aim aim);

}  // namespace kiln::bench
