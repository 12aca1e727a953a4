// SPDX-License-Identifier: Apache-2.0
//
// Launching a kernel many times and timing each launch by events.
#pragma once

#include <kiln/service.h>
#include <kiln/version.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// Summary of launch times, in milliseconds.
struct TimeSummary {
    double min_ms = 0;     ///< the shortest
    double median_ms = 0;  ///< of an even number the mean of the middle two
    double max_ms = 0;     ///< the longest
    int iterations = 0;    ///< how many were timed
};

/// Summarises one or more times. The median of an even number is the mean of the middle two. Throws UsageError for
/// none.
TimeSummary summarise(std::vector<double> times_ms);

/// Makes what a kernel reads cold: reads a buffer of twice the device's L2 cache (on the host, overwrites it).
class CacheFlusher {
  public:
    /// Allocates the buffer; on a GPU also builds a small kernel, since the reading has to be
    /// queued in the stream: a host that waits would add its launch latency to what is timed.
    explicit CacheFlusher(Service& service);
    /// Queues it on `stream`.
    void flush(const Stream& stream);

    /// Twice the L2 cache of this device, 128 MiB where its size is not known; at most 8 GiB.
    static std::uint64_t buffer_bytes(const DeviceInfo& device);

  private:
    Buffer buffer_;
    Kernel<void(int, float*, float)> push_out_;  // empty on the host
    float value_ = 0;
};

/// Times each of `iterations` launches, 1 or more, after `warm_up` others. before_each may be empty. Throws UsageError for other
/// numbers.
std::vector<double> time_launches(const Device& device, const Stream& stream, int warm_up, int iterations,
                                  const std::function<void()>& launch,
                                  const std::function<void()>& before_each);

/// As many launches as fit two seconds, between 3 and 20.
int host_iterations(double one_launch_ms);

}  // namespace KILN_ABI
}  // namespace kiln
