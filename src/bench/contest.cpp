// SPDX-License-Identifier: Apache-2.0
//
// Verifying comes before any timing, since it tells what is wrong with the first launch.
#include "bench/contest.h"

#include <kiln/error.h>

namespace kiln::bench {

Contest::Contest(Workbench& bench, BenchRow& row, const Chosen& chosen, const Sizes& sizes,
                 const std::function<void(Problem&)>& adjust)
    : bench_(bench), row_(row), stage_(bench, chosen.variant, sizes, adjust) {
    row.variant = chosen.variant.text();
    row.origin = chosen.origin;
    row.failures = stage_.verify();
    row.verified = row.failures.empty();
}

GuardedTensor& Contest::result_like(std::string_view output) {
    results_.push_back(stage_.like(output));
    return results_.back();
}

void Contest::add(std::string with, std::string detail, Launch launch, const GuardedTensor& result, Aim aim) {
    attempt(row_, with, [&] {
        launch();
        bench_.stream().synchronize();
        const std::vector<std::string> wrong = stage_.verify(result, with);
        row_.failures.insert(row_.failures.end(), wrong.begin(), wrong.end());
        add_verified(with, std::move(detail), std::move(launch), wrong.empty(), aim);
    });
}

void Contest::add_verified(std::string with, std::string detail, Launch launch, bool right, Aim aim) {
    others_.push_back({std::move(with), std::move(detail), std::move(launch), right, aim});
}

void Contest::time() {
    stage_.done_verifying();
    std::vector<Launch> launches = {[this] { stage_.launch(); }};
    for (const Other& other : others_) launches.push_back(other.launch);
    std::vector<std::vector<double>> times = bench_.in_turns(launches);
    row_.kiln = spread_of(std::move(times[0]));
    for (std::size_t i = 0; i < others_.size(); ++i) {
        const Other& other = others_[i];
        row_.comparisons.push_back(
            compared(row_, other.with, other.detail, std::move(times[i + 1]), other.aim.must, other.aim.aim));
        row_.comparisons.back().verified = other.right;
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
