// SPDX-License-Identifier: Apache-2.0
//
// What a run found, as text for people and as JSON for programs.
#pragma once

#include <kiln/build.h>
#include <kiln/device.h>
#include <kiln/template.h>
#include <kiln/timing.h>
#include <kiln/wisdom.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/problem.h"
#include "cli/terminal.h"
#include "cli/verify.h"

namespace kiln::cli {

/// What comparing the result has shown.
struct Checked {
    double max_abs_error = 0;
    double max_error_over_bound = 0;  ///< right is 1 and less
    std::string how;                  ///< "all 30 elements"
    std::string failure;              ///< what is wrong, in a sentence or more; empty: nothing

    bool exact = false;               ///< integers gave equal results, too

    bool pass() const { return failure.empty(); }
    /// Takes in what a further launch on integers gave, if the first one is right.
    void add_exact(const Verdict& verdict);
};

struct Report {
    std::string kernel;
    std::string variant_text;  ///< "BM=64 BN=64", in the template's order
    Values variant;
    std::optional<Choice> choice;  ///< where the options left the variant open
    std::string dtype;    ///< of A and B: "f16"
    std::string problem;  ///< "C (5 x 6, f32) = A (5 x 7, f16) * B (7 x 6, f16)"
    Backend backend = Backend::host;
    std::optional<std::string> device;  ///< not set: compiled only
    std::string arch;
    Shape shape;
    double flops = 0;           ///< of the mathematics
    double bytes = 0;           ///< what is read or written at least once
    std::string flops_formula;  ///< "2 m n k"
    std::string bytes_formula;  ///< "A, B and C once"
    Origin cache = Origin::compiled;
    std::string key;
    double build_ms = 0;
    std::optional<double> load_ms;
    std::optional<TimeSummary> time;
    std::size_t shared_bytes = 0;
    std::optional<int> registers;
    std::optional<int> blocks_per_sm;
    Verify verified = Verify::none;
    std::optional<Checked> checked;

    /// From the median; nullopt without a time that can be measured.
    std::optional<double> gflops() const;
    std::optional<double> gbps() const;
};

std::string to_text(const Report& report, const Terminal& terminal);
std::string to_json(const Report& report);

/// The verdict on a product in words. how: full or sample.
Checked checked(const Verdict& verdict, Verify how);

/// A template for --list-kernels.
struct KernelEntry {
    std::string name;
    std::string summary;
    std::string parameters;    ///< "BM=64 BN=64": the defaults
    bool is_gemm = false;      ///< jit-gemm can run it
    bool is_declared = false;  ///< as the problem that it declares
};
std::string kernels_text(const std::vector<KernelEntry>& kernels);
std::string kernels_json(const std::vector<KernelEntry>& kernels);

/// The devices of one backend for --list-devices.
struct BackendEntry {
    Backend backend = Backend::host;
    std::vector<DeviceInfo> devices;
    std::string reason;  ///< why there are none
};
std::string devices_text(const std::vector<BackendEntry>& backends);
std::string devices_json(const std::vector<BackendEntry>& backends);

}  // namespace kiln::cli
