// SPDX-License-Identifier: Apache-2.0
//
// Measures one row: Kiln's kernel and the implementations of other libraries, each verified, then timed with
// interleaved launches; PyTorch's in rounds of a few launches.
#pragma once

#include <list>
#include <optional>
#include <string>
#include <vector>

#include "bench/benchmark.h"
#include "bench/torch.h"
#include "bench/verified_launch.h"

namespace kiln::bench {

/// Lower bounds of a ratio: what it must reach, and what it aims at.
struct Aim {
    std::optional<double> must, aim;
};

class ComparatorRun {
  public:
    /// Builds and verifies Kiln's kernel, and sets its fields of the row.
    /// shared: VerifiedLaunch
    ComparatorRun(Benchmark& bench, BenchRow& row, const Chosen& chosen, const Sizes& sizes,
                  const std::function<void(Problem&)>& adjust = {}, SharedTensors* shared = nullptr);

    VerifiedLaunch& kernel() { return kernel_; }
    /// Poisoned memory for another library's result, of the type and shape of this output.
    GuardedTensor& result_like(std::string_view output);

    /// Adds another implementation, which writes its result to `result`. It is launched once and verified; a
    /// wrong result is a failure of the row, an exception a note. tolerance: CheckRequest::tolerance
    void add(std::string with, std::string detail, Launch launch, const GuardedTensor& result, Aim aim,
             double tolerance = 0);
    /// The same, verified by the caller.
    /// times: what its time counts, a copy's more than once where less than its bandwidth is asked for.
    void add_verified(std::string with, std::string detail, Launch launch, bool right, Aim aim,
                      double times = 1);
    /// Adds PyTorch's implementations of a problem, given as its script reads it. aims: by the implementation's name;
    /// those without an entry are only listed.
    void add_torch(TorchProcess& torch, const std::string& problem,
                   const std::vector<std::pair<std::string, Aim>>& aims);
    /// Compares Kiln with the fastest of these implementations, under this name and with this aim; the others are
    /// only listed. To be called before time().
    void join(std::string name, std::vector<std::string> ways, Aim aim);
    /// Times all implementations, verifies Kiln's again, and sets the row's times and ratios. The inputs
    /// change.
    void time();

  private:
    struct Other {
        std::string with, detail;
        Launch launch;        ///< empty: PyTorch's
        std::size_t way = 0;  ///< its number in PyTorch's list
        bool right = false;
        Aim aim;
        double times = 1;
        std::vector<double> times_us;
    };
    struct Group {
        std::string name;
        std::vector<std::string> ways;
        Aim aim;
    };

    void time_by_rounds(const std::vector<Launch>& launches, std::vector<std::vector<double>>& times_us);
    void compare_groups();

    Benchmark& bench_;
    BenchRow& row_;
    VerifiedLaunch kernel_;
    std::list<GuardedTensor> results_;
    std::vector<Other> others_;
    std::vector<Group> groups_;
    TorchProcess* torch_ = nullptr;
};

/// Sets the row's throughput, in operations or bytes.
void set_flops_rate(BenchRow& row, const Problem& problem);
void set_bytes_rate(BenchRow& row, const Problem& problem);

}  // namespace kiln::bench
