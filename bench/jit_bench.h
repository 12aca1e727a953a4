// SPDX-License-Identifier: Apache-2.0
//
// The parts of jit-bench: what is measured in processes of its own (jit_processes.cpp), and what is
// measured as calls in this one (jit_calls.cpp).
#pragma once

#include <kiln/kiln.h>

#include <optional>
#include <string>
#include <vector>

#include "support.h"

namespace kiln::bench {

using GemmFn = void(int m, int n, int k, const half* a, const half* b, float* c);

/// The FP16 tile that every figure is about.
Variant default_tile(const Service& service);

struct Setup {
    Backend backend = Backend::host;
    int device = 0;
    int rounds = 15;  ///< processes per figure
};

/// What is held to the aim: the median itself, or it less, or over, the comparator's.
enum class Measure { median, difference, ratio };

/// Kiln beside its comparator, both measured in turns in the same run.
struct Figure {
    std::string name;
    std::string unit;
    Spread kiln;
    std::string bare_name;  ///< empty: there is no comparator
    std::optional<Spread> bare;
    Measure measure = Measure::median;
    std::optional<double> aim;  ///< at most; for Measure::difference less than
    /// Parts of `kiln` that are measured inside it.
    std::vector<std::pair<std::string, Spread>> parts;

    double value() const;
    std::optional<bool> met() const;
};

/// From the Service's construction to a callable kernel, in a new process with a filled cache.
Figure warm_start(const Setup& setup);
/// Compiling for the first time in a process, and after that.
std::vector<Figure> cold_compile(const Setup& setup);
/// Service::build of a kernel that is built already.
std::vector<Figure> hot_lookup(Service& service);
/// A launch through a typed kernel, without the work on the device.
Figure launch_call(Service& service, int device);

/// What the processes that the above start do; `arguments` begins with "--child". Returns the exit status.
int run_child(const std::vector<std::string>& arguments);

}  // namespace kiln::bench
