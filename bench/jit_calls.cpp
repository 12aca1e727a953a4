// SPDX-License-Identifier: Apache-2.0
//
// The hot calls: looking up a built kernel, and launching it. Each batch of calls through Kiln is
// followed by one of the comparator; what is compared is the medians of the batches.
#include <kiln/error.h>

#include <barrier>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <unordered_map>

#include "bare_cuda.h"
#include "jit_bench.h"

namespace kiln::bench {
namespace {

constexpr int kLookupBatches = 25;
constexpr int kLookupsPerBatch = 200000;  // milliseconds, so that threads do meet
constexpr int kLaunchBatches = 500;  // many, since the driver's own time varies by a tenth from one to the next
constexpr int kLaunchesPerBatch = 100;  // well below what a stream queues before a launch has to wait
constexpr int kWarmUpBatches = 3;

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

// Calls `body` kLookupsPerBatch times in each of `threads` threads at once, over and over; gives the mean
// nanoseconds per call of each batch. Two bodies take turns.
template <class First, class Second>
std::pair<Spread, Spread> lookup_times(int threads, const First& first, const Second& second) {
    std::vector<double> totals[2] = {std::vector<double>(kLookupBatches),
                                     std::vector<double>(kLookupBatches)};
    std::mutex mutex;
    std::barrier together(threads);
    const auto work = [&] {
        for (int batch = -kWarmUpBatches; batch < kLookupBatches; ++batch) {
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
    return {spread_of(totals[0]), spread_of(totals[1])};
}

}  // namespace

std::vector<Figure> hot_lookup(Service& service) {
    const Variant variant = default_tile(service);
    service.build<GemmFn>(variant);
    std::unordered_map<std::string, int> map;
    std::shared_mutex mutex;
    // As many as the service would hold after a while.
    for (int i = 0; i < 100; ++i) map[variant.text() + std::to_string(i)] = i;
    map[variant.text()] = -1;

    std::vector<Figure> figures;
    for (const int threads : {1, 2, 4}) {
        if (threads > 1 && threads > static_cast<int>(std::thread::hardware_concurrency())) continue;
        Figure figure;
        figure.name = "hot look-up, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
        figure.unit = "ns";
        std::tie(figure.kiln, figure.bare) = lookup_times(
            threads, [&] { keep(service.build<GemmFn>(variant)); },
            [&] {
                const std::shared_lock lock(mutex);
                keep(map.find(variant.text())->second);
            });
        figure.bare_name = "unordered_map<string, int> under a shared_mutex";
        if (threads == 1) figure.aim = 100;
        figures.push_back(std::move(figure));
    }
    return figures;
}

Figure launch_call(Service& service, int device) {
    const Kernel<GemmFn> kernel = service.build<GemmFn>(service.parse(kProbe, "launch_probe.cu").variant());
    const Stream& stream = service.stream();
    const Buffer memory = service.device().allocate(256);
    int m = 64, n = 64, k = 64;
    const half* a = memory.as<half>();
    const half* b = a;
    float* c = memory.as<float>();

    const auto per_call = [&](const auto& launch) {
        const Stopwatch watch;
        for (int i = 0; i < kLaunchesPerBatch; ++i) launch();
        const double us = watch.elapsed_us() / kLaunchesPerBatch;
        stream.synchronize();
        return us;
    };
    const auto through_kiln = [&] { kernel(stream, m, n, k, a, b, c); };

    Figure figure;
    figure.name = "launch call";
    figure.unit = "us";
    std::vector<double> kiln, bare;
    if (service.backend() == Backend::cuda) {
        const BareCuda driver(device);
        void* pointers[] = {&m, &n, &k, &a, &b, &c};
        const Dim3 grid = kernel.variant().grid(pointers);
        const Dim3 block = kernel.variant().block();
        const auto function = static_cast<cuda::FunctionHandle>(kernel.function_handle());
        const auto handle = static_cast<cuda::StreamHandle>(stream.handle());
        const auto directly = [&] {
            check(driver.launch_kernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, handle,
                                       pointers, nullptr),
                  "cuLaunchKernel");
        };
        for (int batch = -kWarmUpBatches; batch < kLaunchBatches; ++batch) {
            // Who goes first changes, so that neither gains by its place.
            double times[2];
            for (const int which : {batch & 1, ~batch & 1})
                times[which] = which == 0 ? per_call(through_kiln) : per_call(directly);
            if (batch < 0) continue;
            kiln.push_back(times[0]);
            bare.push_back(times[1]);
        }
        figure.bare_name = "cuLaunchKernel with grid and arguments prepared";
        figure.bare = spread_of(std::move(bare));
        figure.measure = Measure::ratio;
        figure.aim = 1.03;
    } else {
        for (int batch = -kWarmUpBatches; batch < kLaunchBatches; ++batch) {
            const double us = per_call(through_kiln);
            if (batch >= 0) kiln.push_back(us);
        }
    }
    figure.kiln = spread_of(std::move(kiln));
    return figure;
}

}  // namespace kiln::bench
