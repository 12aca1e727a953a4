// SPDX-License-Identifier: Apache-2.0
//
// One process of a stampede, as an application would write it: stampede_worker CACHE REMOTE VARIANTS FIRST
// says "ready", waits until its standard input ends, builds VARIANTS variants beginning with number FIRST,
// runs each kernel, and writes what it got. REMOTE: a URL, or "" for none.
#include <kiln/kiln.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr const char* kText = R"(// stamp: y = NUMBER * x + i
//@ kernel stamp
//@ param  NUMBER int in 1..1000 = 1 "the factor"
//@ block  32
//@ grid   ceil_div(n, 32)
#include "kiln/device.h"
extern "C" __global__ void stamp(int n, const int* x, int* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = NUMBER * x[i] + i;
}
)";
using StampFn = void(int n, const int* x, int* y);

bool computes(kiln::Service& service, const kiln::Kernel<StampFn>& stamp, int number) {
    constexpr int n = 77;
    std::vector<int> x(n), y(n, -1);
    for (int i = 0; i < n; ++i) x[static_cast<std::size_t>(i)] = 3 * i - 50;
    auto x_buffer = service.device().allocate(n * sizeof(int));
    auto y_buffer = service.device().allocate(n * sizeof(int));
    x_buffer.copy_from(std::as_bytes(std::span(x)));
    y_buffer.copy_from(std::as_bytes(std::span(y)));
    stamp(service.stream(), n, x_buffer.as<int>(), y_buffer.as<int>());
    service.stream().synchronize();
    y_buffer.copy_to(std::as_writable_bytes(std::span(y)));
    for (int i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (y[at] != number * x[at] + i) return false;
    }
    return true;
}

void run(const std::string& cache, const std::string& remote, int variants, int first) {
    kiln::ServiceOptions options;
    options.backend = kiln::Backend::host;
    options.cache.directory = cache;
    options.cache.remote = kiln::RemoteOptions{};
    options.cache.remote->url = remote;
    options.cache.remote->timeout = std::chrono::seconds(5);  // the machine is busy
    kiln::Service service(options);
    const auto stamp = service.parse(kText, "stamp.cu");

    std::cout << "ready" << std::endl;
    while (std::cin.get() != std::char_traits<char>::eof()) continue;

    const auto start = std::chrono::steady_clock::now();
    for (int v = 0; v < variants; ++v) {
        const int number = 1 + (first + v) % variants;
        const auto variant = stamp.variant({{"NUMBER", number}});
        const kiln::Compiled compiled = service.compile(variant);
        const std::string_view bytes(reinterpret_cast<const char*>(compiled.binary.bytes.data()),
                                     compiled.binary.bytes.size());
        const auto kernel = service.build<StampFn>(variant);
        std::cout << "variant " << number << ' ' << bytes.size() << ' '
                  << std::hash<std::string_view>()(bytes) << ' ' << computes(service, kernel, number) << '\n';
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const kiln::Counters counters = service.counters();
    for (const kiln::CounterField& field : kiln::counter_fields())
        std::cout << "counter " << field.name << ' ' << counters.*field.value << '\n';
    std::cout << "seconds " << seconds.count() << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) {
        std::cerr << "usage: stampede_worker CACHE REMOTE VARIANTS FIRST\n";
        return 2;
    }
    try {
        run(argv[1], argv[2], std::atoi(argv[3]), std::atoi(argv[4]));
    } catch (const std::exception& exception) {
        std::cerr << exception.what() << '\n';
        return 1;
    }
}
