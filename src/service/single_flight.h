// SPDX-License-Identifier: Apache-2.0
//
// One of several threads does what all of them want, until none of them does any more.
#pragma once

#include <kiln/error.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>

#include "base/no_cancel.h"

namespace kiln {

/// Counts who wants a piece of work. When all of them have asked for a stop, it is to stop. Thread-safe.
class WaiterCount {
  public:
    void join() { ++wanting_; }
    void leave() {
        if (--wanting_ == 0) stop_.request_stop();
    }
    /// What the work is to obey.
    std::stop_token token() const { return stop_.get_token(); }
    bool has_ended() const { return stop_.stop_requested(); }

  private:
    std::atomic<int> wanting_{0};
    std::stop_source stop_;
};

/// What a key of single_flight's map has.
template <class Result>
struct SharedWork {
    std::shared_future<Result> result;
    std::shared_ptr<WaiterCount> interest;
};

/// Runs `work`, with a token that stops it when all callers of the key have asked for that, for the first caller; the others
/// wait for its result. The key is forgotten when the work has ended, well or badly. stop: of this caller, whose call then
/// ends with what the work throws for it, or with BuildError. The thread is not cancelled meanwhile, since the others wait for
/// its result. map: under `mutex`.
template <class Map, class Key, class Work>
auto single_flight(std::mutex& mutex, Map& map, const Key& key, const std::stop_token& stop, Work work) {
    using Result = decltype(work(stop));
    constexpr std::chrono::milliseconds kPoll{20};
    const NoCancel no_cancel;
    for (;;) {
        std::promise<Result> promise;
        typename Map::mapped_type flight{promise.get_future().share(), std::make_shared<WaiterCount>()};
        bool is_first = false;
        {
            const std::lock_guard lock(mutex);
            const auto [place, is_new] = map.try_emplace(key, flight);
            is_first = is_new;
            flight = place->second;
            flight.interest->join();
        }
        const std::stop_callback leave(stop, [interest = flight.interest] { interest->leave(); });
        if (is_first) {
            try {
                promise.set_value(work(flight.interest->token()));
            } catch (...) {
                promise.set_exception(std::current_exception());
            }
            const std::lock_guard lock(mutex);
            map.erase(key);
        } else if (stop.stop_possible()) {
            while (flight.result.wait_for(kPoll) != std::future_status::ready)
                if (stop.stop_requested()) throw BuildError("the build was cancelled by a stop request");
        }
        try {
            return Result(flight.result.get());
        } catch (const BuildError&) {
            // The others gave up before this caller came, who did not.
            if (!flight.interest->has_ended() || stop.stop_requested()) throw;
        }
    }
}

}  // namespace kiln
