// SPDX-License-Identifier: Apache-2.0
//
// A stampede: processes of stampede_worker that wait for one start signal, a compiler that tells when it
// runs and may hit the process that runs it, and what came of it all.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace kiln::test {

/// What one process wrote.
struct WorkerReport {
    bool ended_well = false;
    int signal = 0;  ///< that ended it
    std::string error;
    std::map<int, std::string> binaries;  ///< variant -> size and hash of the binary
    int correct = 0;                      ///< kernels that computed what they should
    std::map<std::string, std::uint64_t> counters;
    double seconds = 0;
};

/// A C++ compiler that passes everything on to the real one and takes a note of each compile. The first of
/// all compiles may send a signal to the process that asked for it, in the middle.
class NotedCompiler {
  public:
    /// signal: "KILL", "STOP", or nothing.
    NotedCompiler(const std::filesystem::path& directory, const std::string& signal);

    const std::filesystem::path& program() const { return program_; }
    int compiles() const;
    /// The process that was hit; nullopt: none yet.
    std::optional<pid_t> hit() const;

    /// The program that stands behind; empty where there is none.
    static std::filesystem::path real_compiler();

  private:
    std::filesystem::path program_, notes_, hit_;
};

/// Processes that were started together. The destructor ends those that still run.
class Stampede {
  public:
    /// directory: for what they write.
    explicit Stampede(std::filesystem::path directory) : directory_(std::move(directory)) {}
    Stampede(const Stampede&) = delete;
    Stampede& operator=(const Stampede&) = delete;
    ~Stampede();

    void add(const std::filesystem::path& cache, const std::string& remote, int variants, int first);
    /// Once all are ready.
    void start();
    /// Waits until all but `others` have ended. False when that takes longer than some minutes.
    bool wait_for_all_but(std::size_t others);
    /// Of all that have ended, in the order of add(); call it after wait_for_all_but(0).
    std::vector<WorkerReport> reports() const;
    /// From the start signal to now.
    double seconds() const;

  private:
    struct Worker {
        pid_t process = 0;
        bool ended = false;
        int status = 0;
        std::filesystem::path output, error;
    };
    void reap();

    std::filesystem::path directory_;
    FileDescriptor gate_;  ///< the write end of the workers' standard input
    FileDescriptor gate_read_;
    std::vector<Worker> workers_;
    double started_ = 0;
};

}  // namespace kiln::test
