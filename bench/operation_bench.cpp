// SPDX-License-Identifier: Apache-2.0
//
// operation-bench [--quick]: what an Operation costs the CPU, on the service's device.
//   call         nanoseconds per launch of a known shape: the driver's own call, AnyKernel, Operation; then 8 threads
//   substitute   latency of calls while the variants of 64 new shapes are built in the background
//   prepare      64 shapes one after the other and all at once, with an empty cache each
// Rounds of all ways are interleaved, and medians are printed.
#include <kiln/kiln.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda_api.h"
#include "tune/wisdom_line.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;
using GemmFn = void(int m, int n, int k, const half* a, const half* b, float* c);

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

/// A directory that goes with the program.
struct Directory {
    Directory() {
        std::string name = (std::filesystem::temp_directory_path() / "kiln-operation-bench-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
        path = name;
    }
    ~Directory() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
    std::filesystem::path path;
};

struct Bench {
    explicit Bench(bool quick) : is_quick(quick) {}

    /// A service with an empty cache of its own.
    ServiceOptions options() {
        ServiceOptions result;
        result.cache.directory = directory.path / std::to_string(next++);
        result.cache.remote = RemoteOptions{};
        return result;
    }
    /// gemm_tiled's variants, each the best of one shape: m = 8, 16, 24, ...
    Wisdom wisdom_of(const Service& service, std::size_t shapes) const {
        Wisdom wisdom;
        std::vector<WisdomEntry> entries;
        const Template gemm = service.find("gemm_tiled");
        const std::string digest = template_digest(gemm);
        for (const Variant& variant : gemm.variants({{"T", "half"}, {"BK", 16}})) {
            if (entries.size() == shapes) break;
            WisdomEntry entry;
            entry.template_name = "gemm_tiled";
            entry.values = variant.values();
            entry.problem_values = {"T"};
            entry.sizes = shape(entries.size());
            entry.device = as_field(service.device().info().name);
            entry.arch = service.target().arch;
            entry.median_ms = 1e-3;
            entry.tried = 1;
            entry.digest = digest;
            entry.compiler = "none";
            entry.date = "2026-01-01T00:00:00Z";
            entries.push_back(std::move(entry));
        }
        wisdom.merge(entries);
        return wisdom;
    }
    static Sizes shape(std::size_t index) {
        return {{"m", 8 * static_cast<std::int64_t>(index + 1)}, {"n", 64}, {"k", 32}};
    }

    /// Nanoseconds per call of each of these, interleaved.
    template <std::size_t count>
    std::array<double, count> call_ns(const Stream& stream,
                                      const std::array<std::function<void()>, count>& calls) const {
        const int batch = is_quick ? 20 : 200, rounds = is_quick ? 3 : 201;
        std::array<std::vector<double>, count> times;
        for (int round = 0; round < rounds; ++round)
            for (std::size_t i = 0; i < count; ++i) {
                stream.synchronize();
                const auto start = Clock::now();
                for (int call = 0; call < batch; ++call) calls[i]();
                times[i].push_back(seconds_since(start) * 1e9 / batch);
            }
        // The first in full, the others by their difference in the same round: clocks change between rounds.
        std::array<double, count> result{median(times[0])};
        for (std::size_t i = 1; i < count; ++i) {
            for (int round = 0; round < rounds; ++round)
                times[i][static_cast<std::size_t>(round)] -= times[0][static_cast<std::size_t>(round)];
            result[i] = result[0] + median(times[i]);
        }
        return result;
    }

    void call() {
        Service service(options());
        OperationOptions with;
        with.wisdom = wisdom_of(service, 1);
        const TypedOperation<GemmFn> gemm(service, "gemm", {{"T", "half"}}, with);
        gemm.prepare(shape(0));
        const Variant variant = gemm.explain(shape(0)).choice.variant;
        const Kernel<GemmFn> kernel = service.build<GemmFn>(variant);
        Buffer memory = service.device().allocate(1 << 20);
        memory.fill(0x3c003c00);
        int m = 8, n = 64, k = 32;
        half* a = memory.as<half>();
        half* b = a + (1 << 16);
        float* c = memory.as<float>() + (1 << 17);
        void* arguments[] = {&m, &n, &k, &a, &b, &c};
        const Dim3 grid = variant.grid(arguments), block = variant.block();
        const cuda::Api* const api = service.backend() == Backend::cuda ? cuda::api() : nullptr;
        const auto raw = [&] {
            if (api == nullptr) return;
            api->launch_kernel(
                static_cast<cuda::FunctionHandle>(kernel.function_handle()), grid.x, grid.y, grid.z, block.x,
                block.y, block.z, static_cast<unsigned>(variant.dynamic_shared_bytes()),
                static_cast<cuda::StreamHandle>(service.stream().handle()), arguments, nullptr);
        };
        const StreamRef stream(service.stream());
        const auto ns = call_ns<4>(service.stream(), {raw, [&] { kernel.launch(stream, arguments); },
                                                      [&] { gemm.launch(stream, arguments); },
                                                      [&] { gemm(stream, m, n, k, a, b, c); }});
        std::printf("call        %s\n", variant.text().c_str());
        std::printf("  %-34s %8.1f ns\n", api ? "cuLaunchKernel" : "(no driver's call on the host)", ns[0]);
        const char* const names[] = {"", "AnyKernel::launch", "Operation::launch", "TypedOperation"};
        for (std::size_t i = 1; i < 4; ++i)
            std::printf("  %-34s %8.1f ns  %+8.1f beyond the driver's call\n", names[i], ns[i],
                        ns[i] - ns[0]);

        // With an extent of 0 the driver is not called: what is left is Kiln's own part.
        m = 0;
        gemm.prepare({{"m", 0}, {"n", n}, {"k", k}});
        const auto own_ns = call_ns<3>(service.stream(), {[] {}, [&] { kernel.launch(stream, arguments); },
                                                          [&] { gemm.launch(stream, arguments); }});
        std::printf("  of that Kiln's own part, by empty launches: AnyKernel %.1f ns, Operation %.1f ns\n",
                    own_ns[1] - own_ns[0], own_ns[2] - own_ns[0]);
        m = 8;

        // Threads have streams of their own, and launch at once.
        constexpr int kThreads = 8;
        const int batch = is_quick ? 20 : 300, rounds = is_quick ? 2 : 40;
        for (const bool is_operation : {false, true}) {
            std::vector<double> times[kThreads];
            std::vector<std::thread> threads;
            for (int thread = 0; thread < kThreads; ++thread)
                threads.emplace_back([&, thread] {
                    const Stream own = service.device().stream();
                    void* mine[] = {&m, &n, &k, &a, &b, &c};
                    for (int round = 0; round < rounds; ++round) {
                        const auto start = Clock::now();
                        for (int i = 0; i < batch; ++i)
                            if (is_operation)
                                gemm.launch(own, mine);
                            else
                                kernel.launch(own, mine);
                        times[thread].push_back(seconds_since(start) * 1e9 / batch);
                        own.synchronize();
                    }
                });
            for (std::thread& thread : threads) thread.join();
            std::vector<double> all;
            for (const auto& of : times) all.push_back(median(of));
            std::printf("  %-34s %8.1f ns  median of %d threads\n",
                        is_operation ? "Operation::launch, all at once" : "AnyKernel::launch, all at once",
                        median(all), kThreads);
        }
    }

    void substitute() {
        const std::size_t shapes = is_quick ? 4 : 65;
        Service service(options());
        OperationOptions with;
        with.when_missing = WhenMissing::substitute;
        with.wisdom = wisdom_of(service, shapes);
        const TypedOperation<GemmFn> gemm(service, "gemm", {{"T", "half"}}, with);
        gemm.prepare(shape(0));
        Buffer memory = service.device().allocate(8 << 20);
        memory.fill(0x3c003c00);
        half* const a = memory.as<half>();
        half* const b = a + (1 << 20);
        float* const c = memory.as<float>() + (1 << 20);
        std::mt19937 random(1);
        std::vector<double> us;
        us.reserve(1 << 24);
        const auto start = Clock::now();
        // New shapes come one after the other; known ones in between.
        std::size_t known = 1;
        int calls = 0;
        while (known < shapes || gemm.usage().pending > 0) {
            if (calls % 50 == 0 && known < shapes) ++known;
            const auto m = static_cast<int>(8 * (1 + (calls % 50 == 0 ? known - 1 : random() % known)));
            const auto before = Clock::now();
            gemm(service.stream(), m, 64, 32, a, b, c);
            us.push_back(seconds_since(before) * 1e6);
            if (++calls % 200 == 0)
                service.stream().synchronize();  // a full queue would make the driver wait
        }
        const double seconds = seconds_since(start);
        std::ranges::sort(us);
        const auto at = [&](double part) {
            return us[static_cast<std::size_t>(part * static_cast<double>(us.size() - 1))];
        };
        std::printf("substitute  %zu new shapes, %zu calls in %.1f s until all were built\n", shapes - 1,
                    us.size(), seconds);
        std::printf("  median %.2f us, 99%% %.2f, 99.9%% %.2f, greatest %.1f us\n", at(0.5), at(0.99),
                    at(0.999), us.back());
    }

    void prepare() {
        const std::size_t shapes = is_quick ? 3 : 64;
        double seconds[2] = {};
        for (const bool at_once : {false, true}) {
            Service service(options());
            OperationOptions with;
            with.wisdom = wisdom_of(service, shapes);
            const Operation gemm(service, "gemm", {{"T", "half"}}, with);
            std::vector<Sizes> all;
            for (std::size_t i = 0; i < shapes; ++i) all.push_back(shape(i));
            const auto start = Clock::now();
            if (at_once)
                gemm.prepare(all);
            else
                for (const Sizes& one : all) gemm.prepare(one);
            seconds[at_once] = seconds_since(start);
        }
        std::printf(
            "prepare     %zu shapes: one after the other %.2f s, at once %.2f s: %.1f times faster on %u "
            "cores\n",
            shapes, seconds[0], seconds[1], seconds[0] / seconds[1], std::thread::hardware_concurrency());
    }

    const bool is_quick;
    Directory directory;
    int next = 0;
};

}  // namespace
}  // namespace kiln

int main(int count, char** words) try {
    const bool quick = count == 2 && std::strcmp(words[1], "--quick") == 0;
    if (count > 2 || (count == 2 && !quick)) {
        std::fprintf(stderr, "operation-bench knows one option, --quick; '%s' is none\n", words[1]);
        return 2;
    }
    kiln::Bench bench(quick);
    bench.call();
    bench.substitute();
    bench.prepare();
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
