// SPDX-License-Identifier: Apache-2.0
//
// The facts about the machine that a run records: the GPU's clocks, power and temperature by NVML, if it is installed;
// the processor; the date.
#pragma once

#include <kiln/tools/bench.h>

#include <optional>
#include <string>
#include <vector>

#include "base/dynamic_library.h"

namespace kiln::bench {

/// NVML's view of one GPU.
class ChipMonitor {
  public:
    /// pci_bus_id: "0000:3b:00.0"; empty: no GPU. Values that NVML lacks are not reported.
    explicit ChipMonitor(const std::string& pci_bus_id,
                         const std::vector<std::string>& libraries = {"libnvidia-ml.so.1"});

    /// nullopt when the clocks can't be read.
    std::optional<ChipState> read() const;
    /// "580.95.05"; empty: not known.
    const std::string& driver() const { return driver_; }

  private:
    using Device = struct DeviceOpaque*;
    using Number = int(Device, unsigned*);
    using NumberOf = int(Device, int, unsigned*);

    DynamicLibrary library_;
    Device device_ = nullptr;
    NumberOf* clock_ = nullptr;
    NumberOf* temperature_ = nullptr;
    Number* power_ = nullptr;
    std::string driver_;
};

/// The PCI bus ID of a CUDA device, by the driver; empty if it is not available.
std::string pci_bus_id(int ordinal);

/// "16 x Intel(R) Xeon(R) Platinum 8481C": the processors that this process may use.
std::string machine_text();
/// Now, in UTC: "2026-11-22T03:05:00Z".
std::string utc_now();
/// The date without punctuation, and six random letters: "20261122T030500-k3x9qa".
std::string run_identity(const std::string& date);

}  // namespace kiln::bench
