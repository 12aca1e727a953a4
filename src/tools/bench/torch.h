// SPDX-License-Identifier: Apache-2.0
//
// PyTorch, in a process of its own that measures a few launches whenever it is asked to: so its launches and Kiln's
// alternate by small rounds, and clock and temperature are the same for both.
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

/// One way in which PyTorch does a problem.
struct TorchWay {
    std::string name;    ///< "cuDNN", "FlashAttention", "eager", "torch.compile"
    std::string detail;  ///< "cuDNN 91002"; may be empty
    bool right = false;  ///< its result
    std::string error;   ///< not empty: it can't be timed
};

struct TorchSetup {
    int device = 0;
    bool quick = false;
    std::uint64_t flush_bytes = 0;  ///< that push everything else out of the L2 cache
    std::vector<std::pair<std::string, std::string>> environment;
    std::stop_token stop;
};

/// helper/torch_bench.py, which says what problems there are. Not thread-safe.
class TorchProcess {
  public:
    using Limit = std::chrono::milliseconds;

    /// Starts it; problem() says whether it answers.
    explicit TorchProcess(TorchSetup setup, Limit limit = std::chrono::minutes(2));

    /// Why PyTorch can't be measured; empty: it can.
    const std::string& problem() const { return problem_; }
    /// Of PyTorch, its CUDA, cuDNN and Triton.
    const std::map<std::string, std::string>& versions() const { return versions_; }

    /// Makes the inputs of a problem in place of the one before, calls each way once and checks its result. Throws Error
    /// when the process ends or is too slow for it; the next problem gets a process of its own then.
    std::vector<TorchWay> prepare(const std::string& problem, Limit limit);
    /// The microseconds of so many calls of the way of this number. Throws the same, and what PyTorch fails with.
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
