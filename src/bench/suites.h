// SPDX-License-Identifier: Apache-2.0
//
// The suites. Each adds its rows to `suite`, whose name is set.
#pragma once

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

/// Adds the geometric mean of the ratios to one comparator; nothing where no row has it.
void add_mean(BenchSuite& suite, const std::string& with, std::optional<double> must = {},
              std::optional<double> aim = {});

}  // namespace kiln::bench
