// SPDX-License-Identifier: Apache-2.0
//
// A server with eight threads, each with a stream of its own, that gets GEMMs of sizes nobody knew before. An Operation
// picks the variant of each shape; the first call with a new shape launches a variant that is built already, while
// the best one is compiled in the background.
#include <kiln/kiln.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <random>
#include <span>
#include <thread>
#include <vector>

using GemmFn = void(int m, int n, int k, const kiln::half* a, const kiln::half* b, float* c);

namespace {

std::vector<kiln::half> integers(int count, std::mt19937& random) {
    std::vector<kiln::half> values;
    for (int i = 0; i < count; ++i)
        values.emplace_back(static_cast<float>(static_cast<int>(random() % 5) - 2));
    return values;
}

// Small integers: every order of additions gives the same result. Returns whether all of C is right.
bool serve(const kiln::TypedOperation<GemmFn>& gemm, const kiln::Device& device, const kiln::Stream& stream,
           int m, int n, int k, std::mt19937& random) {
    const auto a = integers(m * k, random), b = integers(k * n, random);
    std::vector<float> c(static_cast<std::size_t>(m) * n, std::nanf(""));
    kiln::Buffer a_memory = device.allocate(a.size() * 2), b_memory = device.allocate(b.size() * 2);
    kiln::Buffer c_memory = device.allocate(c.size() * 4);
    a_memory.copy_from_async(std::as_bytes(std::span(a)), stream);
    b_memory.copy_from_async(std::as_bytes(std::span(b)), stream);
    c_memory.copy_from_async(std::as_bytes(std::span(c)), stream);
    gemm(stream, m, n, k, a_memory.as<kiln::half>(), b_memory.as<kiln::half>(), c_memory.as<float>());
    c_memory.copy_to_async(std::as_writable_bytes(std::span(c)), stream);
    stream.synchronize();
    for (int row = 0; row < m; ++row)
        for (int column = 0; column < n; ++column) {
            float sum = 0;
            for (int i = 0; i < k; ++i) sum += float(a[row * k + i]) * float(b[i * n + column]);
            if (c[row * n + column] != sum) return false;
        }
    return true;
}

}  // namespace

int main() try {
    kiln::Service service;
    kiln::OperationOptions options;
    options.when_missing = kiln::WhenMissing::substitute;
    const kiln::TypedOperation<GemmFn> gemm(service, "gemm", {{"T", "half"}}, options);
    gemm.prepare({{"m", 64}, {"n", 64}, {"k", 64}});  // something to launch from the first request on

    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < 8; ++thread)
        threads.emplace_back([&, thread] {
            std::mt19937 random(thread);
            const kiln::Stream stream = service.device().stream();
            for (int request = 0; request < 4; ++request) {
                const int m = 1 + static_cast<int>(random() % 90), n = 1 + static_cast<int>(random() % 90);
                const int k = 1 + static_cast<int>(random() % 90);
                if (!serve(gemm, service.device(), stream, m, n, k, random)) ++wrong;
            }
        });
    for (std::thread& thread : threads) thread.join();
    gemm.wait();  // only so that this program can tell what came of it

    const kiln::OperationUsage usage = gemm.usage();
    std::printf("%zu shapes; %zu of them with another variant than the best; %d wrong results\n",
                usage.shapes, usage.substituted, wrong.load());
    std::printf("%s", gemm.explain({{"m", 64}, {"n", 64}, {"k", 64}}).text().c_str());
    return wrong == 0 ? 0 : 1;
} catch (const kiln::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
