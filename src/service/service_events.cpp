// SPDX-License-Identifier: Apache-2.0
//
// Counters by atomic_ref, so that there is one list of them, the public struct.
#include "service/service_events.h"

#include <atomic>

namespace kiln {

void ServiceEvents::count(std::uint64_t Counters::*counter, std::uint64_t amount) {
    std::atomic_ref(counters_.*counter).fetch_add(amount, std::memory_order_relaxed);
}

Counters ServiceEvents::counters() const {
    Counters snapshot;
    for (const auto& field : counter_fields())
        snapshot.*field.value = std::atomic_ref(counters_.*field.value).load(std::memory_order_relaxed);
    for (const Hits& hits : memory_hits_) snapshot.memory_hits += hits.count.load(std::memory_order_relaxed);
    return snapshot;
}

Counters ServiceEvents::take_new(const Counters& now) {
    const std::lock_guard lock(mutex_);
    Counters news;
    for (const auto& field : counter_fields()) {
        news.*field.value =
            now.*field.value > taken_.*field.value ? now.*field.value - taken_.*field.value : 0;
        taken_.*field.value += news.*field.value;
    }
    return news;
}

void ServiceEvents::warn_once(const std::string& topic, const std::string& text) {
    {
        const std::lock_guard lock(mutex_);
        if (!warned_.insert(topic).second) return;
    }
    warn_(text);
}

}  // namespace kiln
