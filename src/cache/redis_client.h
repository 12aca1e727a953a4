// SPDX-License-Identifier: Apache-2.0
//
// RedisClient: calls to a server from any thread over a few kept connections. Each call is bounded by one
// time limit; after a failure the server is not used for some time, and calls return at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "cache/redis_connection.h"

namespace kiln {

/// A call that failed, or was not made during the pause after a failure. what() is a complete sentence.
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
        patient,   ///< does not call a server that has failed recently
        insistent  ///< calls it nevertheless, for operators
    };
    /// An error that the server answers is a reply, unless it says that the server can't serve anyone or not
    /// us. Throws RedisError.
    RedisReply call(const RedisCommand& command, Manner manner = Manner::patient);

    /// Begins a pause as after a failure: the server answers, but not usefully. what: follows its name in the
    /// message. Returns the sentence.
    std::string leave_alone(const std::string& what);

    /// The same for stores only: for example, the server is full but can be read.
    std::string pause_writes(const std::string& what);
    bool writes_paused() const;

    /// Why the server is not used, or nothing is stored there; empty: no problem, or it was not called yet.
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
