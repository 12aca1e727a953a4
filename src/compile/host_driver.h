// SPDX-License-Identifier: Apache-2.0
//
// The C++ compiler of this machine: where it is, what it is, and what stands behind it.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/process.h"
#include "compile/compiler.h"

namespace kiln {

/// A compiler's driver: GCC's or Clang's own program, or a wrapper that runs one. Threads may share it.
class HostDriver {
  public:
    struct Located {
        std::filesystem::path file;
        bool is_clang = false;
        std::string version;  // "gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)"
        std::string identity;
    };

    HostDriver(const WorkerLimits& limits, SharedMemory memory)
        : limits_(limits), memory_(std::move(memory)) {}

    /// KILN_HOST_CXX, or the first of c++, g++ and clang++ in PATH. Throws BuildError: there is none, or it is neither GCC
    /// nor Clang.
    Located located() const;
    /// To run a program of the compiler's: with the limits, and without the variables that are not in `environment`.
    ProcessRequest request(std::vector<std::string> arguments,
                           const std::vector<Variable>& environment) const;

  private:
    /// What it would run, as -### prints it.
    std::string ask(const std::filesystem::path& file, const std::vector<Variable>& environment) const;
    /// From that answer: version, target, and the content of every program and library behind the driver.
    IdentityMemory::Answer examine(const std::filesystem::path& file, const std::string& answer) const;

    const WorkerLimits limits_;
    const SharedMemory memory_;
};

}  // namespace kiln
