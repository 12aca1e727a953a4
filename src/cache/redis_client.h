// SPDX-License-Identifier: Apache-2.0
//
// RedisClient: calls to a server from any thread over a few kept connections. Each call is bounded by one
// time limit; a server that fails is left alone for a while, and calls in that time return at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "cache/redis_connection.h"

namespace kiln {

/// A call that failed, or was not made because the server is left alone. what() is a whole sentence.
class RedisError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// Thread-safe, and usable in a child of fork(), which starts with new connections of its own.
class RedisClient {
  public:
    explicit RedisClient(RedisSettings settings);
    ~RedisClient();
    RedisClient(const RedisClient&) = delete;
    RedisClient& operator=(const RedisClient&) = delete;

    const RedisSettings& settings() const { return settings_; }

    enum class Manner {
        patient,   ///< leaves a server alone that has failed
        insistent  ///< asks it all the same: an operator wants to know
    };
    /// An error that the server answers is a reply, unless it says that the server can't serve anyone or not
    /// us. Throws RedisError.
    RedisReply call(const RedisCommand& command, Manner manner = Manner::patient);

    /// Leaves the server alone from now on, as after a failure: it answers, and what it says is of no use.
    /// what: goes on after its name. Returns the sentence.
    std::string leave_alone(const std::string& what);

    /// The same for storing alone: it is full, say, and still good to read from.
    std::string pause_writes(const std::string& what);
    bool writes_paused() const;

    /// Why the server is left alone, or nothing is stored there; empty while all is well, or it was not asked
    /// yet.
    std::string problem() const;
    /// Calls that failed, as seen by this process.
    std::uint64_t failures() const;

  private:
    class Session;
    Session& session() const;

    const RedisSettings settings_;
    mutable std::atomic<Session*> session_;
};

}  // namespace kiln
