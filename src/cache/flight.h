// SPDX-License-Identifier: Apache-2.0
//
// Flight: of the processes on this machine that want one key at the same time, one compiles and the others
// wait for its result. A process that dies is replaced at once, one that hangs after a few seconds; every wait
// has a limit.
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
    /// A holder that has given no sign of life for this long is taken for stalled; it gives one every quarter
    /// of it.
    std::chrono::milliseconds stall{3000};
};

/// Move-only. While a leader's Flight lives, others wait; its end lets one of them lead, or all of them go on
/// alone when settle() said that there is nothing to wait for.
class Flight {
  public:
    enum class Role {
        leader,  ///< compile; others wait for it
        served,  ///< the probe found the result
        alone,   ///< compile, though others may do the same: no locks, the limit has passed, or a leader told
                 ///< so
        stopped,  ///< the stop token was asked
    };

    /// probe: is the result there by now? Called after every wait, and by a new leader before it leads
    /// (another may have ended in between). Throws what the probe throws.
    static Flight board(LocalLocks& locks, const std::string& digest, const FlightLimits& limits,
                        const std::function<bool()>& probe, std::stop_token stop = {});

    Flight(Flight&&) noexcept;
    Flight& operator=(Flight&&) = delete;
    ~Flight();

    Role role() const;
    double waited_ms() const;
    bool waited() const;
    bool took_over() const;  ///< from a holder that died or stalled while this one waited for it

    /// A leader's last word. published: the probes of those who wait will find the result. Otherwise (it
    /// failed, or could not be stored) they all go on alone instead of leading one after the other.
    void settle(bool published);

  private:
    struct State;
    explicit Flight(std::unique_ptr<State> state);

    std::unique_ptr<State> state_;
};

}  // namespace kiln
