// SPDX-License-Identifier: Apache-2.0
//
// CUB counts in 32 bits and Kiln in 64, so CUB's counts are compared with those of Kiln's first launch, which were
// checked by the reference.
#include "bench/cub_comparators.h"

#include <algorithm>

namespace kiln::bench {

void add_cub_sum(Benchmark& bench, BenchSuite& suite, CubFunction& cub, ComparatorRun& run, Aim aim) {
    VerifiedLaunch& kernel = run.kernel();
    const GuardedTensor& result = run.result_like("sum");
    std::string problem;
    const Launch launch =
        cub.prepare(kernel.tensor("x").data(), kernel.problem().sizes.at("n"), result.data(), problem);
    if (launch)
        run.add("CUB", "DeviceReduce::Sum", launch, result, aim);
    else
        bench.missing(suite, "cub", problem);
}

void add_cub_histogram(Benchmark& bench, BenchSuite& suite, CubFunction& cub, ComparatorRun& run,
                       Buffer& counts, Aim aim) {
    constexpr std::size_t kBins = 256;
    VerifiedLaunch& kernel = run.kernel();
    std::vector<std::uint64_t> ours(kBins);
    kernel.tensor("counts").read(0, std::as_writable_bytes(std::span(ours)));
    counts = bench.service().device().allocate(kBins * sizeof(std::uint32_t));
    counts.fill(0xa5a5a5a5);
    std::string problem;
    const Launch launch =
        cub.prepare(kernel.tensor("x").data(), kernel.problem().sizes.at("n"), counts.data(), problem);
    if (!launch) {
        bench.missing(suite, "cub", problem);
        return;
    }
    launch();
    bench.stream().synchronize();
    std::vector<std::uint32_t> theirs(kBins);
    counts.copy_to(std::as_writable_bytes(std::span(theirs)));
    run.add_verified("CUB", "DeviceHistogram::HistogramEven; both set their counts", launch,
                     std::equal(ours.begin(), ours.end(), theirs.begin()), aim);
}

}  // namespace kiln::bench
