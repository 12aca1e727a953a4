// SPDX-License-Identifier: Apache-2.0
//
// Measurements in separate processes: how these are started, and the lines in which they report.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/benchmark.h"

namespace kiln::bench {

/// Lines of words, separated by tabs.
using ChildLines = std::vector<std::vector<std::string>>;

/// Runs options.child with these arguments. Throws Error, with its standard error, when it fails or can't be
/// started.
ChildLines start_child(const BenchOptions& options, const std::vector<std::string>& words,
                       std::vector<std::pair<std::string, std::string>> environment = {});

/// The same for one that makes a service: the backend, device, architecture and template directories of the run's follow.
ChildLines start_service_child(Benchmark& bench, std::vector<std::string> words,
                               std::vector<std::pair<std::string, std::string>> environment = {});

/// Why a child process can't open OpenBLAS; empty: it can.
std::string openblas_problem(const BenchOptions& options);

/// Prints a line to standard output.
void tell(const std::vector<std::string>& words);
/// The number with enough digits to read it back exactly.
std::string number_text(double value);

// The main functions of the child processes; they return the exit status.
int child_warm_kiln(ServiceOptions options, const std::string& cache_directory);
int child_warm_bare(Backend backend, int device, const std::string& binary_file, const std::string& entry);
int child_cold(ServiceOptions options);
int child_host(ServiceOptions service, int size, int rounds, const std::string& cache_directory,
               bool with_openblas);
int child_openblas();

}  // namespace kiln::bench
