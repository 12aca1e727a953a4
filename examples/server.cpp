// SPDX-License-Identifier: Apache-2.0
//
// A server with eight threads, each with a stream of its own, that gets GEMMs of sizes nobody knew before. An Operation
// picks the variant of each shape; the first call with a new shape launches a variant that is built already, while
// the best one is compiled in the background. Shapes that the server does expect are prepared while it serves. At the
// end it prints how long the calls took, tunes a little of what it has seen, and gives back what was remembered.
#include <kiln/kiln.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <future>
#include <random>
#include <span>
#include <vector>

using GemmFn = void(int m, int n, int k, const kiln::half* a, const kiln::half* b, float* c);

namespace {

constexpr unsigned kThreads = 8;
constexpr int kRequests = 4;  // of each thread

// What a thread has seen.
struct Served {
    std::vector<double> call_us;
    int wrong = 0;
};

std::vector<kiln::half> integers(int count, std::mt19937& random) {
    std::vector<kiln::half> values;
    for (int i = 0; i < count; ++i)
        values.emplace_back(static_cast<float>(static_cast<int>(random() % 5) - 2));
    return values;
}

// Small integers: every order of additions gives the same result.
bool is_product(int m, int n, int k, const std::vector<kiln::half>& a, const std::vector<kiln::half>& b,
                const std::vector<float>& c) {
    for (int row = 0; row < m; ++row)
        for (int column = 0; column < n; ++column) {
            float sum = 0;
            for (int i = 0; i < k; ++i) sum += float(a[row * k + i]) * float(b[i * n + column]);
            if (c[row * n + column] != sum) return false;
        }
    return true;
}

void serve(const kiln::TypedOperation<GemmFn>& gemm, const kiln::Device& device, const kiln::Stream& stream,
           int m, int n, int k, std::mt19937& random, Served& served) {
    const auto a = integers(m * k, random), b = integers(k * n, random);
    std::vector<float> c(static_cast<std::size_t>(m) * n, std::nanf(""));
    kiln::Buffer a_memory = device.allocate(a.size() * 2), b_memory = device.allocate(b.size() * 2);
    kiln::Buffer c_memory = device.allocate(c.size() * 4);
    a_memory.copy_from_async(std::as_bytes(std::span(a)), stream);
    b_memory.copy_from_async(std::as_bytes(std::span(b)), stream);
    c_memory.copy_from_async(std::as_bytes(std::span(c)), stream);

    const auto begin = std::chrono::steady_clock::now();
    gemm(stream, m, n, k, a_memory.as<kiln::half>(), b_memory.as<kiln::half>(), c_memory.as<float>());
    const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - begin;

    c_memory.copy_to_async(std::as_writable_bytes(std::span(c)), stream);
    stream.synchronize();
    served.call_us.push_back(elapsed.count());
    if (!is_product(m, n, k, a, b, c)) ++served.wrong;
}

Served serve_requests(const kiln::TypedOperation<GemmFn>& gemm, const kiln::Device& device, unsigned seed) {
    std::mt19937 random(seed);
    const kiln::Stream stream = device.stream();
    Served served;
    for (int request = 0; request < kRequests; ++request) {
        const auto size = [&] { return 1 + static_cast<int>(random() % 90); };
        const int m = size(), n = size(), k = size();
        serve(gemm, device, stream, m, n, k, random, served);
    }
    return served;
}

void print(const char* when, const kiln::OperationUsage& usage) {
    std::printf("%s: %zu shapes, %zu of them with another variant than the best, %zu bytes of workspace\n",
                when, usage.shapes, usage.substituted, usage.workspace_bytes);
}

}  // namespace

int main() try {
    kiln::Service service;
    kiln::OperationOptions options;
    options.when_missing = kiln::WhenMissing::substitute;
    options.max_shapes = 1000;  // those least recently used are forgotten
    const kiln::TypedOperation<GemmFn> gemm(service, "gemm", {{"T", "half"}}, options);
    gemm.prepare({{"m", 64}, {"n", 64}, {"k", 64}});  // something to launch from the first request on

    // Shapes that will come often, in the background: compiled in parallel, and loaded.
    std::future<void> expected = std::async(std::launch::async, [&] {
        const std::vector<kiln::Sizes> shapes = {{{"m", 16}, {"n", 64}, {"k", 64}},
                                                 {{"m", 32}, {"n", 64}, {"k", 64}}};
        gemm.prepare(shapes);
    });
    std::vector<std::future<Served>> threads;
    for (unsigned thread = 0; thread < kThreads; ++thread)
        threads.push_back(std::async(std::launch::async, [&gemm, &service, thread] {
            return serve_requests(gemm, service.device(), thread);
        }));
    Served all;
    for (auto& thread : threads) {
        const Served served = thread.get();  // rethrows what the thread threw
        all.call_us.insert(all.call_us.end(), served.call_us.begin(), served.call_us.end());
        all.wrong += served.wrong;
    }
    expected.get();
    std::ranges::sort(all.call_us);
    std::printf("%zu calls, %d wrong results; median %.1f us, 99%% within %.1f us, longest %.1f us%s\n",
                all.call_us.size(), all.wrong, all.call_us[all.call_us.size() / 2],
                all.call_us[all.call_us.size() * 99 / 100], all.call_us.back(),
                service.backend() == kiln::Backend::host ? " (on the host with the kernel itself)" : "");
    print("after the last request", gemm.usage());
    gemm.wait();  // until nothing is left to be built; a server need not
    print("when all is built", gemm.usage());
    const bool all_built = gemm.usage().substituted == 0;

    // The server is idle. Shapes that it has seen are tuned, as far as the time allows, and what is found is used from now on.
    const kiln::Wisdom found = gemm.tune_pending(std::chrono::seconds(1));
    std::printf("tuned: %zu shapes; Wisdom::store() would keep that for the next start\n%s",
                found.entries().size(), gemm.explain({{"m", 64}, {"n", 64}, {"k", 64}}).text().c_str());

    // It is short of memory, and no launch is in flight. The next call finds its kernel in the service.
    gemm.release();
    print("released", gemm.usage());
    const bool released = gemm.usage().shapes == 0 && gemm.usage().workspace_bytes == 0;
    std::mt19937 random(99);
    serve(gemm, service.device(), service.stream(), 64, 64, 64, random, all);

    return all.wrong == 0 && all_built && released ? 0 : 1;
} catch (const kiln::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
