// SPDX-License-Identifier: Apache-2.0
//
// Measuring in processes of their own: how they are started, and the lines by which they tell.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/benchmark.h"

namespace kiln::bench {

/// Lines of words with tabs between.
using ChildLines = std::vector<std::vector<std::string>>;

/// Starts options.child with these words, and waits. Throws Error with what it wrote to standard error when it
/// fails, and when there is no such program.
ChildLines start_child(const BenchOptions& options, const std::vector<std::string>& words,
                       std::vector<std::pair<std::string, std::string>> environment = {});

/// Why a process of its own can't open OpenBLAS; empty: it can.
std::string openblas_problem(const BenchOptions& options);

/// A line on standard output.
void tell(const std::vector<std::string>& words);
/// Digits that give the number back.
std::string number_text(double value);

// What the processes do; the exit status.
int child_warm_kiln(Backend backend, int device, const std::string& cache_directory);
int child_warm_bare(Backend backend, int device, const std::string& binary_file, const std::string& entry);
int child_cold(Backend backend, int device);
int child_host(int size, int rounds, const std::string& cache_directory, bool with_openblas);
int child_openblas();

}  // namespace kiln::bench
