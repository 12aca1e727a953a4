// SPDX-License-Identifier: Apache-2.0
//
// Timing of launches, and the flush of the L2 cache.
#include <kiln/error.h>
#include <kiln/timing.h>

#include <algorithm>
#include <limits>

#include "base/number_range.h"
#include "run/launch_timer.h"

namespace kiln {
namespace {

constexpr std::uint64_t kUnknownL2 = std::uint64_t{64} << 20;

// The flush reads. Written lines would stay in the cache until the timed kernel evicts them, at its own cost (11% of
// reading 256 MiB on an H200).
constexpr const char* kPushOut =
    R"(// push_out: reads a buffer, to push everything else out of the L2 cache.
//
//@ kernel push_out
//@ block  256
//@ grid   ceil_div(count, 1024)
#include "kiln/device.h"

extern "C" __global__ void push_out(int count, float* data, float never) {
    const int first = static_cast<int>(blockIdx.x * 1024 + threadIdx.x);
    float found = 0;
#pragma unroll
    for (int i = 0; i < 1024; i += 256) found += first < count - i ? data[first + i] : 0.0f;
    if (found == never) data[first] = found;  // it is no number
}
)";

}  // namespace

inline namespace KILN_ABI {

TimeSummary summarise(std::vector<double> times_ms) {
    if (times_ms.empty()) throw UsageError("there are no times to summarise; time one launch or more.");
    std::sort(times_ms.begin(), times_ms.end());
    const std::size_t count = times_ms.size();
    const double median = (times_ms[(count - 1) / 2] + times_ms[count / 2]) / 2;
    return {times_ms.front(), median, times_ms.back(), static_cast<int>(count)};
}

std::uint64_t CacheFlusher::buffer_bytes(const DeviceInfo& device) {
    const bool known = device.backend != Backend::host && device.limits.l2_bytes > 0;
    const std::uint64_t bytes = 2 * (known ? static_cast<std::uint64_t>(device.limits.l2_bytes) : kUnknownL2);
    return std::min<std::uint64_t>(bytes, sizeof(float) * std::uint64_t{std::numeric_limits<int>::max()});
}

CacheFlusher::CacheFlusher(Service& service)
    : buffer_(service.device().allocate(buffer_bytes(service.device().info()))) {
    if (service.backend() == Backend::host) return;
    buffer_.fill(0);  // memory that was never written may not be mapped
    push_out_ = service.build<void(int, float*, float)>(service.parse(kPushOut, "push_out.cu").variant());
}

void CacheFlusher::flush(const Stream& stream) {
    value_ += 1;
    if (push_out_)
        push_out_(stream, static_cast<int>(buffer_.size_bytes() / sizeof(float)), buffer_.as<float>(),
                  std::numeric_limits<float>::quiet_NaN());
    else
        buffer_.fill(static_cast<std::uint32_t>(value_));
}

std::vector<double> time_launches(const Device& device, const Stream& stream, int warm_up, int iterations,
                                  const std::function<void()>& launch,
                                  const std::function<void()>& before_each) {
    check_range("the number of launches to warm up", warm_up, 0, std::numeric_limits<int>::max());
    check_range("the number of timed launches", iterations, 1, std::numeric_limits<int>::max());
    for (int i = 0; i < warm_up; ++i) launch();
    stream.synchronize();
    return time_interleaved(device, stream, {&launch, 1}, iterations, before_each).front();
}

int host_iterations(double one_launch_ms) {
    return static_cast<int>(std::clamp(2000 / std::max(one_launch_ms, 1.0), 3.0, 20.0));
}

}  // namespace KILN_ABI
}  // namespace kiln
