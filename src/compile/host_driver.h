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
#include "compile/driver_answer.h"
#include "compile/loaded_objects.h"

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
    /// All that it says of what it would run, as parse_driver_answer() reads it.
    std::string ask(const std::filesystem::path& file, const std::vector<Variable>& environment) const;
    std::string ask_commands(const std::filesystem::path& file,
                             const std::vector<Variable>& environment) const;
    /// What it prints for options such as -print-prog-name=ld.
    std::string ask_option(const std::filesystem::path& file, const std::vector<std::string>& options) const;
    /// A line with the PATH of the driver behind a wrapper of GCC; empty where the wrapper does not pass the question on.
    std::string ask_path_line(const std::filesystem::path& file) const;
    /// Where it looks for the programs that it runs.
    std::vector<std::filesystem::path> program_directories(const std::filesystem::path& file) const;
    /// The content of every program and library behind the driver. path: where programs without a directory are looked for.
    void add_objects(const std::filesystem::path& file, const DriverAnswer& answer,
                     const std::vector<std::filesystem::path>& path, CompilerObjects& objects) const;
    /// From what it says: version, target, and those objects.
    IdentityMemory::Answer examine(const std::filesystem::path& file, const std::string& text) const;

    const WorkerLimits limits_;
    const SharedMemory memory_;
};

}  // namespace kiln
