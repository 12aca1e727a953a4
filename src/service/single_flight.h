// SPDX-License-Identifier: Apache-2.0
//
// One of several threads does what all of them want.
#pragma once

#include <exception>
#include <future>
#include <mutex>

namespace kiln {

/// Runs `work` for the first caller of a key; the others wait for its result. The key is forgotten when
/// the work has ended, well or badly. map: of shared futures, under `mutex`.
template <class Map, class Key, class Work>
auto single_flight(std::mutex& mutex, Map& map, const Key& key, Work work) -> typename Map::mapped_type {
    using Result = decltype(work());
    std::promise<Result> promise;
    auto future = promise.get_future().share();
    {
        const std::lock_guard lock(mutex);
        if (const auto [place, is_new] = map.try_emplace(key, future); !is_new) return place->second;
    }
    try {
        promise.set_value(work());
    } catch (...) {
        promise.set_exception(std::current_exception());
    }
    const std::lock_guard lock(mutex);
    map.erase(key);
    return future;
}

}  // namespace kiln
