// SPDX-License-Identifier: Apache-2.0
//
// Calls on the fast path: looking up a built kernel, and launching it. Batches of calls through Kiln
// alternate with batches of the comparator, and the medians of the batches are compared.
#include <kiln/error.h>

#include <algorithm>
#include <barrier>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <unordered_map>

#include "base/stopwatch.h"
#include "bench/bare_cuda.h"
#include "bench/jit.h"
#include "bench/suites.h"
#include "format/format.h"

namespace kiln::bench {
namespace {

constexpr int kLookupBatches = 25;
constexpr int kLookupsPerBatch = 200000;  // milliseconds, so that threads do overlap
constexpr int kLaunchBatches =
    500;  // many, since the driver's own time varies by a tenth from one to the next
constexpr int kQuickLookupBatches = 5, kQuickLaunchBatches = 100;
constexpr int kLaunchesPerBatch =
    100;  // well below the queue depth of a stream, at which a launch would wait
constexpr int kWarmUpBatches = 3;
constexpr double kLookupMustNs = 60, kLookupAimNs = 30;
constexpr double kLaunchMust = 1.03;  // times the bare call

// A launch of one small block, so that draining a batch is short.
constexpr const char* kProbe =
    R"(// launch_probe: an almost empty kernel with the signature and the grid of the GEMM
//@ kernel launch_probe
//@ param  T type in half = half "as in the GEMM"
//@ block  32
//@ grid   ceil_div(n, 64) * ceil_div(m, 64)
#include "kiln/device.h"
extern "C" __global__ void launch_probe(int m, int n, int k, const T* a, const T* b, float* c) {
    if (m < 0) c[n] = static_cast<float>(a[k]) + static_cast<float>(b[k]);
}
)";

/// Keeps the compiler from dropping the computation of `value`.
template <class T>
void keep(const T& value) {
    asm volatile("" : : "g"(&value) : "memory");
}

// Repeatedly calls `body` kLookupsPerBatch times in each of `threads` threads in parallel; returns the mean
// nanoseconds per call of each batch. Two bodies alternate.
template <class First, class Second>
std::pair<std::vector<double>, std::vector<double>> lookup_times(int threads, int batches, const First& first,
                                                                 const Second& second) {
    std::vector<double> totals[2] = {std::vector<double>(static_cast<std::size_t>(batches)),
                                     std::vector<double>(static_cast<std::size_t>(batches))};
    std::mutex mutex;
    std::barrier together(threads);
    const auto work = [&] {
        for (int batch = -kWarmUpBatches; batch < batches; ++batch) {
            for (int which = 0; which < 2; ++which) {
                together.arrive_and_wait();
                const Stopwatch watch;
                for (int i = 0; i < kLookupsPerBatch; ++i) which == 0 ? first() : second();
                const double ns_per_call = watch.elapsed_us() * 1000 / kLookupsPerBatch;
                const std::lock_guard lock(mutex);
                if (batch >= 0) totals[which][static_cast<std::size_t>(batch)] += ns_per_call / threads;
            }
        }
    };
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(work);
    work();
    others.clear();
    return {totals[0], totals[1]};
}

}  // namespace

Variant default_tile(const Service& service) { return service.find("gemm_tiled").variant({{"PAD", 1}}); }

void add_bare(BenchRow& row, std::string with, std::string detail, std::vector<double> samples,
              std::optional<double> must, std::optional<double> aim) {
    row.comparisons.push_back(
        compared(row, std::move(with), std::move(detail), std::move(samples), must, aim));
}

void measure_hot_lookup(Benchmark& bench, BenchSuite& suite) {
    Service& service = bench.service();
    const Variant variant = default_tile(service);
    service.build<GemmFn>(variant);
    std::unordered_map<std::string, int> map;
    std::shared_mutex mutex;
    // As many entries as a service may hold after some time.
    for (int i = 0; i < 100; ++i) map[formatted("{}{}", variant.text(), i)] = i;
    map[variant.text()] = -1;

    for (const int threads : {1, 2, 4}) {
        if (threads > 1 && threads > static_cast<int>(std::thread::hardware_concurrency())) continue;
        const std::string text =
            formatted("in-memory look-up, {}{}", threads, threads == 1 ? " thread" : " threads");
        if (!bench.measures(suite, "calls", text)) continue;
        bench.row(suite, text, [&](BenchRow& row) {
            row.unit = "ns";
            row.variant = variant.text();
            auto [ours, theirs] = lookup_times(
                threads, bench.quick() ? kQuickLookupBatches : kLookupBatches,
                [&] { keep(service.build<GemmFn>(variant)); },
                [&] {
                    const std::shared_lock lock(mutex);
                    keep(map.find(variant.text())->second);
                });
            row.kiln = spread_of(std::move(ours));
            add_bare(row, "hash map", "unordered_map<string, int> under a shared_mutex", std::move(theirs));
            if (threads != 1 || !bench.on_cuda()) return;
            row.most_must = kLookupMustNs;
            row.most_aim = kLookupAimNs;
        });
    }
}

void measure_launch_call(Benchmark& bench, BenchSuite& suite) {
    if (!bench.measures(suite, "calls", "launch call")) return;
    bench.row(suite, "launch call", [&](BenchRow& row) {
        Service& service = bench.service();
        const Kernel<GemmFn> kernel =
            service.build<GemmFn>(service.parse(kProbe, "launch_probe.cu").variant());
        const Stream& stream = service.stream();
        const Buffer memory = service.device().allocate(256);
        int m = 64, n = 64, k = 64;
        const half* a = memory.as<half>();
        const half* b = a;
        float* c = memory.as<float>();
        const auto per_call = [&](const Launch& launch) {
            const Stopwatch watch;
            for (int i = 0; i < kLaunchesPerBatch; ++i) launch();
            const double us = watch.elapsed_us() / kLaunchesPerBatch;
            stream.synchronize();
            return us;
        };
        std::vector<Launch> ways = {[&] { kernel(stream, m, n, k, a, b, c); }};

        void* pointers[] = {&m, &n, &k, &a, &b, &c};
        std::optional<BareCuda> driver;
        if (bench.on_cuda()) {
            driver.emplace(service.device().info().ordinal);
            const Dim3 grid = kernel.variant().grid(pointers), block = kernel.variant().block();
            ways.emplace_back([&, grid, block,
                               function = static_cast<cuda::FunctionHandle>(kernel.function_handle()),
                               handle = static_cast<cuda::StreamHandle>(stream.handle())] {
                check(driver->launch_kernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0,
                                            handle, pointers, nullptr),
                      "cuLaunchKernel");
            });
        }
        std::vector<std::vector<double>> times(ways.size());
        const int batches = bench.quick() ? kQuickLaunchBatches : kLaunchBatches;
        for (int batch = -kWarmUpBatches; batch < batches; ++batch) {
            for (std::size_t turn = 0; turn < ways.size(); ++turn) {
                // The order alternates, so that neither has an advantage.
                const std::size_t which = (turn + static_cast<std::size_t>(batch & 1)) % ways.size();
                const double us = per_call(ways[which]);
                if (batch >= 0) times[which].push_back(us);
            }
        }
        row.kiln = spread_of(times[0]);
        if (ways.size() > 1)
            add_bare(row, "cuLaunchKernel", "grid and arguments prepared", times[1], 1 / kLaunchMust, 1.0);
    });
}

void run_jit(Benchmark& bench, BenchSuite& suite) {
    if (bench.options().child.empty()) {
        suite.notes.emplace_back("starts in new processes are not measured: no program to start was given");
    } else {
        measure_warm_start(bench, suite);
        measure_cold_compile(bench, suite);
    }
    measure_hot_lookup(bench, suite);
    measure_launch_call(bench, suite);
}

}  // namespace kiln::bench
