// SPDX-License-Identifier: Apache-2.0
//
// ServiceEvents: what a service reports about itself: counters, trace events, warnings (each once).
#pragma once

#include <kiln/trace.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/thread_slot.h"

namespace kiln {

/// Thread-safe.
class ServiceEvents {
  public:
    ServiceEvents(std::function<void(std::string_view)> warn, TraceFunction trace)
        : warn_(std::move(warn)), trace_(std::move(trace)) {}

    void count(std::uint64_t Counters::*counter, std::uint64_t amount = 1);
    /// The same for Counters::memory_hits, which in-memory look-ups count: each thread has a line of its own.
    void count_memory_hit() {
        const std::size_t slot = thread_slot();
        std::atomic<std::uint64_t>& hits = memory_hits_[slot].count;
        if (slot == kThreadSlots)
            hits.fetch_add(1, std::memory_order_relaxed);
        else  // nobody else writes it
            hits.store(hits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    Counters counters() const;
    /// Of `now`, a snapshot that grows from call to call, what no call before has taken.
    Counters take_new(const Counters& now);

    void trace(const TraceEvent& event) const {
        if (trace_) trace_(event);
    }
    void warn_once(const std::string& text) { warn_once(text, text); }
    /// Once per topic, whatever the text.
    void warn_once(const std::string& topic, const std::string& text);

  private:
    const std::function<void(std::string_view)> warn_;
    const TraceFunction trace_;
    struct alignas(64) Hits {
        std::atomic<std::uint64_t> count{0};
    };
    std::array<Hits, kThreadSlots + 1> memory_hits_;
    mutable Counters counters_;  // each touched through std::atomic_ref only
    std::mutex mutex_;
    std::unordered_set<std::string> warned_;
    Counters taken_;
};

}  // namespace kiln
