// SPDX-License-Identifier: Apache-2.0
//
// A row in the making: Kiln's kernel and other libraries' ways of doing the same, each verified, then timed in
// turns: launch by launch in this process, by rounds of a few launches with PyTorch's.
#pragma once

#include <list>
#include <optional>
#include <string>
#include <vector>

#include "bench/benchmark.h"
#include "bench/torch.h"
#include "bench/verified_launch.h"

namespace kiln::bench {

/// What a ratio must reach, and should.
struct Aim {
    std::optional<double> must, aim;
};

class ComparatorRun {
  public:
    /// Builds Kiln's kernel, verifies it, and sets what the row tells of it.
    ComparatorRun(Benchmark& bench, BenchRow& row, const Chosen& chosen, const Sizes& sizes,
                  const std::function<void(Problem&)>& adjust = {});

    VerifiedLaunch& kernel() { return kernel_; }
    /// Memory for another library's result: like that of this output, poisoned.
    GuardedTensor& result_like(std::string_view output);

    /// Another way, whose result is in that memory after a launch. It is launched once and verified; a wrong
    /// result is the row's failure, what it throws a note.
    void add(std::string with, std::string detail, Launch launch, const GuardedTensor& result, Aim aim);
    /// The same, verified by the caller.
    void add_verified(std::string with, std::string detail, Launch launch, bool right, Aim aim);
    /// PyTorch's ways of doing a problem, as its script reads it. What is asked of each is by its name; a way without an
    /// entry is only told.
    void add_torch(TorchProcess& torch, const std::string& problem,
                   const std::vector<std::pair<std::string, Aim>>& aims);
    /// Of these ways the fastest is what Kiln is compared with, under this name, and held to the aim; the others are
    /// only told. To be called before time().
    void join(std::string name, std::vector<std::string> ways, Aim aim);
    /// What Kiln's kernel needs before each launch, timed with it.
    void before_each(Launch launch) { before_each_ = std::move(launch); }
    /// Times all of them, verifies Kiln's again, and sets the row's times and ratios. The inputs are others afterwards.
    void time();

  private:
    struct Other {
        std::string with, detail;
        Launch launch;        ///< empty: PyTorch's
        std::size_t way = 0;  ///< PyTorch's number of it
        bool right = false;
        Aim aim;
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
    Launch before_each_;
    TorchProcess* torch_ = nullptr;
};

/// The rate of so many operations or bytes.
void set_flops_rate(BenchRow& row, const Problem& problem);
void set_bytes_rate(BenchRow& row, const Problem& problem);

}  // namespace kiln::bench
