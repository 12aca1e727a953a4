// SPDX-License-Identifier: Apache-2.0
//
// Observer: what a service tells about itself: counters, trace events, warnings (each once).
#pragma once

#include <kiln/trace.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

namespace kiln {

/// Thread-safe.
class Observer {
  public:
    Observer(std::function<void(std::string_view)> warn, TraceFunction trace)
        : warn_(std::move(warn)), trace_(std::move(trace)) {}

    void count(std::uint64_t Counters::*counter, std::uint64_t amount = 1);
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
    mutable Counters counters_;  // each touched through std::atomic_ref only
    std::mutex mutex_;
    std::unordered_set<std::string> warned_;
    Counters taken_;
};

}  // namespace kiln
