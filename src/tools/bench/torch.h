// SPDX-License-Identifier: Apache-2.0
//
// PyTorch in a separate process, which measures a few launches on request. So its launches alternate with Kiln's in
// small rounds, at the same clocks and temperature.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/process.h"

namespace kiln::bench {

/// One of PyTorch's implementations of a problem.
struct TorchImplementation {
    std::string name;    ///< "cuDNN", "FlashAttention", "eager", "torch.compile"
    std::string detail;  ///< "cuDNN 91002"; may be empty
    bool right = false;  ///< its result
    std::string error;   ///< not empty: it can't be timed
};

struct TorchSetup {
    int device = 0;
    bool quick = false;
    std::uint64_t flush_bytes = 0;  ///< of a buffer that flushes the L2 cache
    std::vector<std::pair<std::string, std::string>> environment;
    std::stop_token stop;
};

/// Runs helper/torch_bench.py, which lists the problems. Not thread-safe.
class TorchProcess {
  public:
    using Limit = std::chrono::milliseconds;

    /// Starts the process; problem() says whether it answers.
    explicit TorchProcess(TorchSetup setup, Limit limit = std::chrono::minutes(2));

    /// Why PyTorch can't be measured; empty: it can.
    const std::string& problem() const { return problem_; }
    /// Of PyTorch, its CUDA, cuDNN and Triton.
    const std::map<std::string, std::string>& versions() const { return versions_; }

    /// Creates the inputs of a problem in place of the previous one, runs each implementation once and checks its
    /// result. Throws Error when the process ends or exceeds the limit; the next problem then gets a new process.
    std::vector<TorchImplementation> prepare(const std::string& problem, Limit limit);
    /// Lets torch.compile compile for all of these at the same time, so that prepare() of each takes less. What fails there
    /// fails again, with its reason, in prepare(). Throws like prepare().
    void compile_ahead(const std::vector<std::string>& problems, Limit limit);
    /// The microseconds of `count` calls of an implementation, given by its number. Throws like prepare(),
    /// and Error with PyTorch's message.
    std::vector<double> times_us(std::size_t way, int count, Limit limit);

  private:
    using Lines = std::vector<std::vector<std::string>>;

    void start(Limit limit);
    Lines ask(const std::string& question, Limit limit);

    TorchSetup setup_;
    std::unique_ptr<ChildProcess> child_;
    std::string problem_;
    std::map<std::string, std::string> versions_;
};

}  // namespace kiln::bench
