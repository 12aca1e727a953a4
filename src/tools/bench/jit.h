// SPDX-License-Identifier: Apache-2.0
//
// The parts of the suite jit: processes (jit_processes.cpp) and calls (jit_calls.cpp).
#pragma once

#include <kiln/kiln.h>

#include "bench/benchmark.h"

namespace kiln::bench {

using GemmFn = void(int m, int n, int k, const half* a, const half* b, float* c);

/// The FP16 tile that every figure is about.
Variant default_tile(const Service& service);

/// From the Service's construction to a callable kernel, in new processes with a filled cache.
void measure_warm_start(Benchmark& bench, BenchSuite& suite);
/// Compiling for the first time in a process, and after that.
void measure_cold_compile(Benchmark& bench, BenchSuite& suite);
/// Service::build of a kernel that is built already.
void measure_hot_lookup(Benchmark& bench, BenchSuite& suite);
/// A launch through a typed kernel, without the work on the device.
void measure_launch_call(Benchmark& bench, BenchSuite& suite);

/// A comparison of samples that were taken beside Kiln's.
void add_bare(BenchRow& row, std::string with, std::string detail, std::vector<double> samples,
              std::optional<double> must = {}, std::optional<double> aim = {});

}  // namespace kiln::bench
