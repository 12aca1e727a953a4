// SPDX-License-Identifier: Apache-2.0
//
// Launches are queued in batches, each between two events, so that the device does not wait for the host.
#include "run/launch_timer.h"

#include <algorithm>

namespace kiln {
namespace {

constexpr std::size_t kBatch = 64;

}  // namespace

std::vector<std::vector<double>> time_interleaved(const Device& device, const Stream& stream,
                                                  std::span<const QueueLaunch> launches, int rounds,
                                                  const std::function<void()>& before_each) {
    const std::size_t kinds = launches.size(), count = kinds * static_cast<std::size_t>(rounds);
    std::vector<Event> starts, ends;
    for (std::size_t i = 0; i < std::min(kBatch, count); ++i) {
        starts.push_back(device.event());
        ends.push_back(device.event());
    }
    const auto kind_of = [&](std::size_t turn) { return (turn % kinds + turn / kinds) % kinds; };
    std::vector<std::vector<double>> times_ms(kinds);
    for (std::size_t done = 0; done < count;) {
        const std::size_t batch = std::min(kBatch, count - done);
        for (std::size_t i = 0; i < batch; ++i) {
            if (before_each) before_each();
            starts[i].record(stream);
            launches[kind_of(done + i)]();
            ends[i].record(stream);
        }
        stream.synchronize();
        for (std::size_t i = 0; i < batch; ++i)
            times_ms[kind_of(done + i)].push_back(ends[i].elapsed_ms_since(starts[i]));
        done += batch;
    }
    return times_ms;
}

LaunchTimer::LaunchTimer(Service& service, bool cold_l2)
    : service_(service), start_(service.device().event()), end_(service.device().event()) {
    if (cold_l2) flusher_.emplace(service);
}

void LaunchTimer::flush() {
    if (flusher_) flusher_->flush(service_.stream());
}

double LaunchTimer::time_ms(const QueueLaunch& launch) {
    flush();
    start_.record(service_.stream());
    launch();
    end_.record(service_.stream());
    end_.synchronize();
    return end_.elapsed_ms_since(start_);
}

std::vector<double> LaunchTimer::times_ms(const QueueLaunch& launch, int warm_up, int iterations) {
    return time_launches(service_.device(), service_.stream(), warm_up, iterations, launch,
                         [this] { flush(); });
}

std::vector<std::vector<double>> LaunchTimer::interleaved_ms(std::span<const QueueLaunch> launches,
                                                             int rounds) {
    return time_interleaved(service_.device(), service_.stream(), launches, rounds, [this] { flush(); });
}

// The first replay is not timed, since the driver uploads a graph at its first launch.
std::vector<double> LaunchTimer::graph_ms(const QueueLaunch& launch, int iterations) {
    const int launches = std::clamp(iterations, 1, 20);
    const Graph graph = Graph::capture(service_.stream(), [&] {
        for (int i = 0; i < launches; ++i) launch();
    });
    const int replays = std::max(3, (iterations + launches - 1) / launches);
    std::vector<double> times_ms = time_launches(service_.device(), service_.stream(), 1, replays,
                                                 [&] { graph.launch(service_.stream()); }, {});
    for (double& time_ms : times_ms) time_ms /= launches;
    return times_ms;
}

}  // namespace kiln
