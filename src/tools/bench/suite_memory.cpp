// SPDX-License-Identifier: Apache-2.0
//
// Memory-bound kernels: each compared with a copy, and with CUB or the better of PyTorch and torch.compile where
// those have the operation.
#include <algorithm>

#include "bench/comparator_run.h"
#include "bench/cub_comparators.h"
#include "bench/helper/sources.h"
#include "bench/suites.h"
#include "format/format.h"

namespace kiln::bench {
namespace {

struct Work {
    std::string part, text;
    std::vector<std::string> templates;
    Values values;
    Sizes sizes;
    std::string torch;  ///< the script's line; empty: not in PyTorch
    Aim torch_aim, copy_aim;
    bool all_equal = false;  ///< for a histogram: all bytes equal

    Work(std::string of_part, std::string words, std::string name, Values with, Sizes of)
        : part(std::move(of_part)),
          text(std::move(words)),
          templates{std::move(name)},
          values(std::move(with)),
          sizes(std::move(of)) {}
};

std::string extents_text(std::int64_t rows, std::int64_t cols) { return formatted("{} x {}", rows, cols); }

std::vector<Work> list_of(const Benchmark& bench) {
    const bool tiny = !bench.on_gpu(), quick = bench.quick();
    std::vector<Work> list;
    const std::int64_t square = tiny ? 70 : quick ? 8192 : 16384;
    for (const std::string type : {"float", "half"}) {
        Work work("transpose", "transpose " + type + " " + extents_text(square, square), "transpose_tiled",
                  {{"T", type}}, {{"rows", square}, {"cols", square}});
        work.torch = formatted("transpose {} {} {}", square, square, type);
        work.copy_aim = {0.95, 0.98};
        list.push_back(std::move(work));
    }
    const std::int64_t summed = tiny ? 5003 : std::int64_t{1} << (quick ? 26 : 28);
    list.emplace_back("sums", formatted("sum float {}", summed), "sum_shuffle", Values{},
                      Sizes{{"n", summed}});
    const std::int64_t rows = tiny ? 37 : quick ? 16384 : 65536, cols = tiny ? 75 : 4096;
    list.emplace_back("sums", "column sum float " + extents_text(rows, cols), "column_sum", Values{},
                      Sizes{{"rows", rows}, {"cols", cols}});
    list.back().copy_aim = {0.93, 0.97};
    const std::int64_t counted = tiny ? 5003 : std::int64_t{1} << (quick ? 27 : 29);
    for (const bool equal : {false, true}) {
        list.emplace_back("histogram",
                          formatted("histogram of bytes, {}{}", equal ? "all equal " : "uniform ", counted),
                          "histogram", Values{{"SET", true}}, Sizes{{"n", counted}});
        list.back().all_equal = equal;
    }
    for (const std::string name : {"layer_norm", "softmax"}) {
        for (const std::int64_t length : {1024, 4096, 16384, 65536}) {
            if (tiny ? length != 1024 : quick && length == 16384) continue;
            const std::int64_t of_rows = tiny ? 3 : (std::int64_t{1} << (quick ? 25 : 27)) / length;
            Work work(name == "softmax" ? "softmax" : "layer-norm",
                      (name == "softmax" ? "softmax" : "layer norm") + std::string(" half ") +
                          extents_text(of_rows, length),
                      name, {{"T", "half"}}, {{"rows", of_rows}, {"cols", length}});
            work.torch = formatted("{} {} {}", name, of_rows, length);
            work.torch_aim = name == "softmax" ? Aim{2.5, 3.0} : Aim{1.3, 1.65};
            list.push_back(std::move(work));
        }
    }
    return list;
}

}  // namespace

void run_memory(Benchmark& bench, BenchSuite& suite) {
    std::vector<Work> list = list_of(bench);
    std::erase_if(list, [&](const Work& work) { return !bench.measures(suite, work.part, work.text); });
    if (list.empty()) return;
    std::optional<CubFunction> sum, histogram;
    if (bench.wants("cub") && std::ranges::find(list, "sums", &Work::part) != list.end())
        sum.emplace(bench, kCubSum, "kiln_cub_sum");
    if (bench.wants("cub") && std::ranges::find(list, "histogram", &Work::part) != list.end())
        histogram.emplace(bench, kCubHistogram, "kiln_cub_histogram");
    std::vector<Benchmark::Wanted> wanted;
    for (const Work& work : list) wanted.push_back({work.templates, work.values, work.sizes});
    bench.prepare(suite, wanted);
    for (const std::optional<CubFunction>* const cub : {&sum, &histogram})
        if (*cub) (*cub)->wait();
    for (const Work& work : list) {
        bench.row(suite, work.text, [&](BenchRow& row) {
            Buffer counts;
            ComparatorRun run(bench, row, bench.choose(work.templates, work.values, work.sizes), work.sizes,
                              [&](Problem& problem) {
                                  if (!work.all_equal) return;
                                  Tensor& x = problem.tensors.front();
                                  x.fill = Fill::range;
                                  x.low = x.high = 7;
                              });
            const std::string& name = run.kernel().variant().template_name();
            attempt(row, "CUB", [&] {
                if (sum && name == "sum_shuffle") add_cub_sum(bench, suite, *sum, run, {1.00, 1.015});
                if (histogram && name == "histogram")
                    add_cub_histogram(bench, suite, *histogram, run, counts, {1.07, 1.3});
            });
            TorchProcess* const torch = work.torch.empty() ? nullptr : bench.torch(suite);
            if (torch != nullptr) {
                run.add_torch(*torch, work.torch, {});
                run.join("PyTorch", {"eager", "torch.compile"}, work.torch_aim);
            }
            run.time();
            const Problem& problem = run.kernel().problem();
            set_bytes_rate(row, problem);
            if (const double rate = bench.ceilings(suite).copy_bytes_per_us; rate > 0)
                row.comparisons.push_back(share_of(row, "copy", static_cast<double>(problem.bytes) / rate,
                                                   work.copy_aim.must, work.copy_aim.aim));
        });
    }
    for (const char* with : {"CUB", "PyTorch", "copy"}) add_mean(suite, with);
}

}  // namespace kiln::bench
