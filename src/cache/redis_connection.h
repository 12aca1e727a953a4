// SPDX-License-Identifier: Apache-2.0
//
// RedisConnection: one connection, opened and authenticated (AUTH, SELECT) when it is first needed.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/redis_reply.h"
#include "cache/redis_stream.h"
#include "cache/redis_tls.h"
#include "cache/redis_url.h"

namespace kiln {

/// The settings of a connection.
struct RedisSettings {
    RedisUrl url;
    std::filesystem::path ca_file;
    std::chrono::milliseconds timeout{500};

    /// A server's error text for a message: shortened, without password, user, control characters and full
    /// stop.
    std::string quote(std::string_view words) const;
};

/// For one thread at a time. After a RedisFailure it is closed, and may be used again.
class RedisConnection {
  public:
    /// tls: null for a plain connection; must outlive this.
    RedisConnection(const RedisSettings& settings, const TlsContext* tls) : settings_(settings), tls_(tls) {}

    /// Sends a command and waits for its reply; an error that the server answers is a reply too. A connection
    /// that was kept and has gone is opened again, once. Throws RedisFailure.
    RedisReply exchange(const RedisCommand& command, const Deadline& deadline);

    /// -1 while it is closed.
    int descriptor() const { return stream_ ? stream_->descriptor() : -1; }
    void close();

  private:
    void open(const Deadline& deadline);
    RedisReply send_and_receive(const RedisCommand& command, const Deadline& deadline);
    std::size_t transfer(const std::function<RedisStream::Result()>& step, const Deadline& deadline);

    const RedisSettings& settings_;
    const TlsContext* tls_;
    std::unique_ptr<RedisStream> stream_;
    RedisReader reader_;
    std::vector<std::byte> buffer_;
    Deadline::Clock::time_point last_used_;
};

}  // namespace kiln
