// SPDX-License-Identifier: Apache-2.0
//
// Two devices in one process: each has a service of its own, and the services share what belongs to no device. So two
// GPUs of one architecture compile each kernel once, whichever asks first, and both at once here. A thread that has
// made a device current, as the CUDA and HIP runtimes do, finds its service by DeviceServices::current().
// With one GPU, or none, both services are of the same device.
#include <kiln/kiln.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace {

using SumFn = void(long long n, const float* x, float* sum);

// The sum of n ones, on this service's device.
bool adds(kiln::Service& service, int n) {
    const kiln::TypedOperation<SumFn> sum(service, "sum", {{"T", "float"}});
    const std::vector<float> ones(static_cast<std::size_t>(n), 1);
    kiln::Buffer x = service.device().allocate(ones.size() * sizeof(float));
    kiln::Buffer total = service.device().allocate(sizeof(float));
    x.copy_from(std::as_bytes(std::span(ones)));
    sum(service.stream(), n, x.as<float>(), total.as<float>());
    service.stream().synchronize();
    float found = 0;
    total.copy_to(std::as_writable_bytes(std::span(&found, 1)));
    const kiln::DeviceInfo& device = service.device().info();
    std::printf("device %d (%s): the sum of %d ones is %g\n", device.ordinal, device.name.c_str(), n, found);
    return found == static_cast<float>(n);
}

}  // namespace

int main() try {
    kiln::DeviceServices services;
    kiln::Service& first = services.of(0);

    std::unique_ptr<kiln::Service> again;
    const bool are_two = kiln::Device::list(services.backend()).size() > 1;
    if (!are_two) again = std::make_unique<kiln::Service>(first, 0);  // shares its builds, too
    kiln::Service& second = are_two ? services.of(1) : *again;

    bool is_right[2] = {};
    std::thread other([&] {
        try {
            is_right[1] = adds(second, 1000);
        } catch (const std::exception& error) {
            std::fprintf(stderr, "%s\n", error.what());
        }
    });
    is_right[0] = adds(first, 1000);
    other.join();
    if (&services.current() != &services.of(kiln::Device::current(services.backend()))) return 1;

    const kiln::Counters counters = first.counters();  // of both
    std::printf("compiled %llu times\n", static_cast<unsigned long long>(counters.compiles));
    const bool are_alike = first.target().arch == second.target().arch;
    return is_right[0] && is_right[1] && (!are_alike || counters.compiles <= 1) ? 0 : 1;
} catch (const std::exception& error) {  // kiln::Error is one
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
