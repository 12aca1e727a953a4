// SPDX-License-Identifier: Apache-2.0
//
// Results are verified before any timing, to find errors of the first launch, and again after it, since the timed
// launches should be right as well.
#include "bench/comparator_run.h"

#include <kiln/error.h>

#include <algorithm>
#include <iterator>

namespace kiln::bench {
namespace {

// With PyTorch: rounds, and launches of each implementation in a round.
constexpr int kRounds = 8, kLaunches = 5, kQuickRounds = 4, kQuickLaunches = 3;
// Preparing includes compiling.
constexpr std::chrono::seconds kPrepareLimit{240}, kTimeLimit{60};

}  // namespace

ComparatorRun::ComparatorRun(Benchmark& bench, BenchRow& row, const Chosen& chosen, const Sizes& sizes,
                             const std::function<void(Problem&)>& adjust, SharedTensors* shared)
    : bench_(bench), row_(row), kernel_(bench, chosen.variant, sizes, adjust, shared) {
    row.variant = chosen.variant.text();
    row.origin = chosen.origin;
    row.sizes = kernel_.problem().sizes;
    row.failures = kernel_.verify();
    row.verified = row.failures.empty();
}

GuardedTensor& ComparatorRun::result_like(std::string_view output) {
    results_.push_back(kernel_.like(output));
    return results_.back();
}

void ComparatorRun::add(std::string with, std::string detail, Launch launch, const GuardedTensor& result,
                        Aim aim, double tolerance) {
    attempt(row_, with, [&] {
        launch();
        bench_.stream().synchronize();
        const std::vector<std::string> wrong = kernel_.verify(result, with, tolerance);
        row_.failures.insert(row_.failures.end(), wrong.begin(), wrong.end());
        add_verified(with, std::move(detail), std::move(launch), wrong.empty(), aim);
    });
}

void ComparatorRun::add_verified(std::string with, std::string detail, Launch launch, bool right, Aim aim,
                                 double times) {
    others_.push_back({std::move(with), std::move(detail), std::move(launch), 0, right, aim, times, {}});
}

void ComparatorRun::add_torch(TorchProcess& torch, const std::string& problem,
                              const std::vector<std::pair<std::string, Aim>>& aims) {
    attempt(row_, "PyTorch", [&] {
        const std::vector<TorchImplementation> ways = torch.prepare(problem, bench_.at_most(kPrepareLimit));
        torch_ = &torch;
        for (std::size_t i = 0; i < ways.size(); ++i) {
            const TorchImplementation& way = ways[i];
            if (!way.error.empty()) {
                row_.notes.push_back(way.name + " failed: " + way.error);
                continue;
            }
            if (!way.right) row_.failures.push_back("the result of " + way.name + " is wrong");
            const auto aim = std::ranges::find(aims, way.name, &std::pair<std::string, Aim>::first);
            others_.push_back(
                {way.name, way.detail, {}, i, way.right, aim == aims.end() ? Aim{} : aim->second, 1, {}});
        }
    });
}

void ComparatorRun::join(std::string name, std::vector<std::string> ways, Aim aim) {
    groups_.push_back({std::move(name), std::move(ways), aim});
}

void ComparatorRun::time_by_rounds(const std::vector<Launch>& launches,
                                   std::vector<std::vector<double>>& times_us) {
    int rounds = bench_.quick() ? kQuickRounds : kRounds, count = bench_.quick() ? kQuickLaunches : kLaunches;
    if (const std::optional<int> asked = bench_.options().rounds) {
        count = std::min(count, *asked);
        rounds = std::max(1, *asked / count);
    }
    for (int round = 0; round < rounds; ++round) {
        const std::vector<std::vector<double>> ours = bench_.interleaved_us(launches, count);
        for (std::size_t i = 0; i < ours.size(); ++i)
            times_us[i].insert(times_us[i].end(), ours[i].begin(), ours[i].end());
        for (Other& other : others_) {
            if (other.launch || torch_ == nullptr) continue;
            const auto ask = [&] {
                const std::vector<double> theirs =
                    torch_->times_us(other.way, count, bench_.at_most(kTimeLimit));
                other.times_us.insert(other.times_us.end(), theirs.begin(), theirs.end());
            };
            if (!attempt(row_, other.with, ask)) torch_ = nullptr;
        }
    }
}

void ComparatorRun::time() {
    kernel_.done_verifying();
    std::vector<Launch> launches = {[this] { kernel_.launch(); }};
    for (const Other& other : others_)
        if (other.launch) launches.push_back(other.launch);
    std::vector<std::vector<double>> times(launches.size());
    if (torch_ != nullptr)
        time_by_rounds(launches, times);
    else
        times = bench_.interleaved_us(launches);
    if (row_.verified.value_or(false)) {
        std::vector<std::string> wrong = kernel_.verify_again();
        row_.verified = wrong.empty();
        std::ranges::move(wrong, std::back_inserter(row_.failures));
    }
    row_.kiln = spread_of(std::move(times[0]));
    std::size_t next = 1;
    for (Other& other : others_)
        if (other.launch) {
            other.times_us = std::move(times[next++]);
            for (double& time : other.times_us) time *= other.times;
        }
    compare_groups();
    for (Other& other : others_) {
        if (other.times_us.empty()) continue;
        row_.comparisons.push_back(compared(row_, other.with, other.detail, std::move(other.times_us),
                                            other.aim.must, other.aim.aim));
        row_.comparisons.back().verified = other.right;
    }
}

void ComparatorRun::compare_groups() {
    for (const Group& group : groups_) {
        Other* best = nullptr;
        const auto median = [](const Other& one) { return spread_of(one.times_us).median; };
        for (Other& other : others_) {
            if (other.times_us.empty() || std::ranges::find(group.ways, other.with) == group.ways.end())
                continue;
            if (best == nullptr || median(other) < median(*best)) best = &other;
        }
        if (best == nullptr) continue;
        best->detail = best->with + (best->detail.empty() ? "" : ", " + best->detail);
        best->with = group.name;
        best->aim = group.aim;
        std::rotate(others_.data(), best, best + 1);  // it is listed first
    }
}

void set_flops_rate(BenchRow& row, const Problem& problem) {
    if (!row.kiln || problem.flops == 0) return;
    const double gflops = static_cast<double>(problem.flops) / row.kiln->median / 1e3;
    const bool many = gflops >= 1000;
    row.rate = many ? gflops / 1000 : gflops;
    row.rate_unit = many ? "TFLOP/s" : "GFLOP/s";
}

void set_bytes_rate(BenchRow& row, const Problem& problem) {
    if (!row.kiln || problem.bytes == 0) return;
    row.rate = static_cast<double>(problem.bytes) / row.kiln->median / 1e3;
    row.rate_unit = "GB/s";
}

}  // namespace kiln::bench
