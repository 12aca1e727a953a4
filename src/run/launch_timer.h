// SPDX-License-Identifier: Apache-2.0
//
// Times launches by events: single ones, many, several interleaved, or a captured graph; with a warm or a cold L2
// cache.
#pragma once

#include <kiln/device.h>
#include <kiln/service.h>
#include <kiln/timing.h>

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace kiln {

/// Queues work in the service's stream.
using QueueLaunch = std::function<void()>;

/// The milliseconds of each launch, a list per launch, of `rounds` times each. They are interleaved; the first one
/// rotates from round to round, so that none has an advantage. before_each may be empty.
std::vector<std::vector<double>> time_interleaved(const Device& device, const Stream& stream,
                                                  std::span<const QueueLaunch> launches, int rounds,
                                                  const std::function<void()>& before_each);

/// Not thread-safe.
class LaunchTimer {
  public:
    /// cold_l2: flush the L2 cache before each timed launch. The service must outlive it.
    LaunchTimer(Service& service, bool cold_l2);

    /// The milliseconds of one launch. Waits for it.
    double time_ms(const QueueLaunch& launch);
    /// The milliseconds of each of `iterations` launches, after `warm_up` others.
    std::vector<double> times_ms(const QueueLaunch& launch, int warm_up, int iterations);
    /// time_interleaved
    std::vector<std::vector<double>> interleaved_ms(std::span<const QueueLaunch> launches, int rounds);
    /// The milliseconds per launch, of about `iterations` launches replayed from a captured graph.
    std::vector<double> graph_ms(const QueueLaunch& launch, int iterations);
    /// Queues a flush of the L2 cache; nothing for a warm cache.
    void flush();

  private:
    Service& service_;
    std::optional<CacheFlusher> flusher_;
    Event start_, end_;
};

}  // namespace kiln
