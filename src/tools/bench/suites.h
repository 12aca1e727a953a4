// SPDX-License-Identifier: Apache-2.0
//
// The suites. Each adds to `suite`, whose name is set, its rows of the part that is being measured.
#pragma once

#include "bench/results.h"
#include "bench/workbench.h"

namespace kiln::bench {

void run_gemm_half(Workbench& bench, BenchSuite& suite);
void run_gemm_float(Workbench& bench, BenchSuite& suite);
void run_gemm_mma(Workbench& bench, BenchSuite& suite);
void run_skinny(Workbench& bench, BenchSuite& suite);
void run_attention(Workbench& bench, BenchSuite& suite);
void run_decode(Workbench& bench, BenchSuite& suite);
void run_memory(Workbench& bench, BenchSuite& suite);
void run_graphs(Workbench& bench, BenchSuite& suite);
void run_jit(Workbench& bench, BenchSuite& suite);
void run_host(Workbench& bench, BenchSuite& suite);

}  // namespace kiln::bench
