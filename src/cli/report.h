// SPDX-License-Identifier: Apache-2.0
//
// What a run found, as text for people and as JSON for programs.
#pragma once

#include <kiln/build.h>
#include <kiln/device.h>
#include <kiln/template.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/problem.h"
#include "cli/terminal.h"
#include "cli/timing.h"
#include "cli/verify.h"

namespace kiln::cli {

struct Report {
    std::string kernel;
    std::string variant_text;  ///< "BM=64 BN=64", in the template's order
    Values variant;
    Dtype dtype = Dtype::f32;
    Backend backend = Backend::host;
    std::optional<std::string> device;  ///< not set: compiled only
    std::string arch;
    Shape shape;
    Origin cache = Origin::compiled;
    std::string key;
    double build_ms = 0;
    std::optional<double> load_ms;
    std::optional<TimeSummary> time;
    std::size_t shared_bytes = 0;
    std::optional<int> registers;
    std::optional<int> blocks_per_sm;
    Verify verified = Verify::none;
    std::optional<Verdict> verdict;

    /// From the median; nullopt without a time that can be measured.
    std::optional<double> gflops() const;
    std::optional<double> gbps() const;
};

std::string to_text(const Report& report, const Terminal& terminal);
std::string to_json(const Report& report);

/// What is wrong with the result, in a sentence.
std::string describe_failure(const Verdict& verdict);

/// A template for --list-kernels.
struct KernelEntry {
    std::string name;
    std::string summary;
    std::string parameters;  ///< "BM=64 BN=64": the defaults
    bool is_gemm = false;    ///< jit-gemm can run it
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
