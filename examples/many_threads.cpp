// SPDX-License-Identifier: Apache-2.0
//
// One Service for all threads. Sixteen of them ask for the same kernels at the same moment: each kernel is
// compiled by the first one, and the others wait for it or find it in memory.
#include <kiln/kiln.h>

#include <cstdio>
#include <future>
#include <latch>
#include <vector>

using GemmFn = void(int m, int n, int k, const float* a, const float* b, float* c);

int main() try {
    constexpr int kThreads = 16;
    kiln::ServiceOptions options;
    options.cache.enabled = false;  // else the second run of this program would find all of them on disk
    kiln::Service kiln(options);

    std::vector<kiln::Variant> variants;
    for (const int rows : {1, 2, 4, 8, 16, 32})
        variants.push_back(kiln.find("gemm_naive").variant({{"T", "float"}, {"BX", 8}, {"BY", rows}}));
    std::latch start(kThreads);
    std::vector<std::future<void>> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.push_back(std::async(std::launch::async, [&] {
            start.arrive_and_wait();
            for (const auto& variant : variants) kiln.build<GemmFn>(variant);
        }));
    }
    for (auto& thread : threads) thread.get();  // rethrows what a thread threw

    const kiln::Counters counters = kiln.counters();
    const std::size_t requests = kThreads * variants.size();
    std::printf("%d threads asked %zu times for %zu kernels\n", kThreads, requests, variants.size());
    std::printf("compiled %llu, found in memory %llu, waited for another thread's %llu\n",
                static_cast<unsigned long long>(counters.compiles),
                static_cast<unsigned long long>(counters.memory_hits),
                static_cast<unsigned long long>(requests - counters.compiles - counters.memory_hits));
    return counters.compiles == variants.size() ? 0 : 1;
} catch (const kiln::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
