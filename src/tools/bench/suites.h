// SPDX-License-Identifier: Apache-2.0
//
// The suites. Each adds its rows of the current part to `suite`, whose name is set.
#pragma once

#include "bench/benchmark.h"
#include "bench/results.h"

namespace kiln::bench {

/// Gives every sequence of a paged KV cache the maximum length, so that the number of bytes to read is known. Does
/// nothing for a problem without lengths.
void fill_lengths(Problem& problem);

void run_gemm_half(Benchmark& bench, BenchSuite& suite);
void run_gemm_float(Benchmark& bench, BenchSuite& suite);
void run_gemm_mma(Benchmark& bench, BenchSuite& suite);
void run_skinny(Benchmark& bench, BenchSuite& suite);
void run_attention(Benchmark& bench, BenchSuite& suite);
void run_decode(Benchmark& bench, BenchSuite& suite);
void run_memory(Benchmark& bench, BenchSuite& suite);
void run_graphs(Benchmark& bench, BenchSuite& suite);
void run_unseen(Benchmark& bench, BenchSuite& suite);
/// What run_unseen() would launch of this part.
std::vector<Variant> unseen_variants(const Service& service, const Chooser& chooser, std::string_view part,
                                     const BenchOptions& options);
void run_jit(Benchmark& bench, BenchSuite& suite);
void run_host(Benchmark& bench, BenchSuite& suite);

}  // namespace kiln::bench
