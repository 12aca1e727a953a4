// SPDX-License-Identifier: Apache-2.0
//
// What --list-kernels and --list-devices print.
#pragma once

#include <kiln/device.h>

#include <string>
#include <vector>

namespace kiln::cli {

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
