// SPDX-License-Identifier: Apache-2.0
//
// The parts of the suite jit: processes (jit_processes.cpp) and calls (jit_calls.cpp).
#pragma once

#include <kiln/kiln.h>

#include "bench/benchmark.h"

namespace kiln::bench {

using GemmFn = void(int m, int n, int k, const half* a, const half* b, float* c);

/// The FP16 GEMM tile that all rows of the suite measure.
Variant default_tile(const Service& service);

/// The time from the Service's construction to a callable kernel, in new processes with a filled cache.
void measure_warm_start(Benchmark& bench, BenchSuite& suite);
/// The first compile of a process, and later ones.
void measure_cold_compile(Benchmark& bench, BenchSuite& suite);
/// Service::build of a kernel that is built already.
void measure_hot_lookup(Benchmark& bench, BenchSuite& suite);
/// The launch call of a typed kernel, without the work on the device.
void measure_launch_call(Benchmark& bench, BenchSuite& suite);

/// Adds a comparison with samples that were interleaved with Kiln's.
void add_bare(BenchRow& row, std::string with, std::string detail, std::vector<double> samples,
              std::optional<double> must = {}, std::optional<double> aim = {});

}  // namespace kiln::bench
