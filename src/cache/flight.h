// SPDX-License-Identifier: Apache-2.0
//
// Flight: of several processes on this machine that need the same key at the same time, one compiles and the
// others wait for its result. A process that dies is replaced at once, one that hangs after a few seconds;
// every wait has a limit.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "cache/local_locks.h"

namespace kiln {

struct FlightLimits {
    std::chrono::milliseconds wait{120000};
    /// A holder without a heartbeat for this long is considered stalled; heartbeats are sent four times as
    /// often.
    std::chrono::milliseconds stall{3000};
};

/// Move-only. Others wait during the lifetime of a leader's Flight. Then one of them leads, or all of them
/// compile for themselves if settle() said that there is no result.
class Flight {
  public:
    enum class Role {
        leader,  ///< compile; others wait for it
        served,  ///< the probe found the result
        alone,   ///< compile, though others may do the same: no locks, the limit has passed, or a leader told
                 ///< so
        stopped,  ///< a stop was requested
    };

    /// probe: whether the result exists. Called after every wait, and by a new leader first (another one may
    /// have finished in between). Throws what the probe throws.
    static Flight board(LocalLocks& locks, const std::string& digest, const FlightLimits& limits,
                        const std::function<bool()>& probe, std::stop_token stop = {});

    Flight(Flight&&) noexcept;
    Flight& operator=(Flight&&) = delete;
    ~Flight();

    Role role() const;
    double waited_ms() const;
    bool waited() const;
    bool took_over() const;  ///< from a holder that died or stalled while this one waited for it

    /// The leader's outcome. published: the probes of waiting processes will find the result. Otherwise (it
    /// failed, or could not be stored) they all compile for themselves, instead of leading one after the
    /// other.
    void settle(bool published);

  private:
    struct State;
    explicit Flight(std::unique_ptr<State> state);

    std::unique_ptr<State> state_;
};

}  // namespace kiln
