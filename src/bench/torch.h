// SPDX-License-Identifier: Apache-2.0
//
// What PyTorch reaches, measured by a script of ours in a process of its own; a device copy, which both sides
// measure, says whether the two are comparable.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/workbench.h"

namespace kiln::bench {

struct TorchFigure {
    std::string name;    ///< "cuDNN", "FlashAttention", "torch"
    std::string detail;  ///< "softmax"
    BenchSpread us;
    bool right = false;
    std::string error;  ///< not empty: there are no times
};

struct TorchFigures {
    std::map<std::string, std::vector<TorchFigure>> by_problem;  ///< the lines that were asked
};

/// Problems as helper/torch_bench.py reads them. Empty where PyTorch is not there or not wanted, with a note in the
/// suite; its copy beside ours is a note too.
TorchFigures measure_torch(Workbench& bench, BenchSuite& suite, std::vector<std::string> problems);

/// Why PyTorch can't be measured on this device; empty: it can.
std::string torch_problem(Workbench& bench);

/// Adds what PyTorch has of a problem to a row that has Kiln's times. must, aim: for the figure of that name; the
/// others are only told.
void add_torch(BenchRow& row, const TorchFigures& figures, const std::string& problem, std::string_view name,
               std::optional<double> must, std::optional<double> aim);

/// The lines that the script prints, for tests.
TorchFigures parse_torch(const std::string& output, std::string& version, std::string& unavailable);

}  // namespace kiln::bench
