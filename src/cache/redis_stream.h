// SPDX-License-Identifier: Apache-2.0
//
// RedisStream: bytes to and from a server over a socket that never blocks, plainly or through TLS, and
// connect(), which opens one. A Deadline bounds all the waiting of an exchange together.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "base/file.h"

namespace kiln {

/// The server could not be used. what() follows its name: "refused the connection".
class RedisFailure : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// The server ended the connection: one that has idled may have gone while the server is well.
class RedisConnectionLost : public RedisFailure {
  public:
    using RedisFailure::RedisFailure;
};

class Deadline {
  public:
    using Clock = std::chrono::steady_clock;

    explicit Deadline(std::chrono::milliseconds limit) : limit_(limit), end_(Clock::now() + limit) {}

    Clock::time_point end() const { return end_; }
    std::chrono::nanoseconds left() const { return end_ - Clock::now(); }
    /// Throws RedisFailure when the time is over.
    void check() const;
    /// Waits until poll() reports one of the events (POLLIN, POLLOUT) or an error. False when `until` came
    /// first; throws RedisFailure when the whole time is over.
    bool wait(int descriptor, short events, Clock::time_point until) const;
    void wait(int descriptor, short events) const { wait(descriptor, events, end_); }

  private:
    std::chrono::milliseconds limit_;
    Clock::time_point end_;
};

/// A connected socket (TCP_NODELAY, non-blocking, close-on-exec). The name is looked up by a thread, which is
/// abandoned when it takes too long. Throws RedisFailure.
FileDescriptor connect_socket(const std::string& host, std::uint16_t port, const Deadline& deadline);

/// Owns its socket. The destructor sends nothing.
class RedisStream {
  public:
    struct Result {
        enum class Status { done, wait_to_read, wait_to_write, closed };
        Status status = Status::done;
        std::size_t count = 0;  ///< bytes, when done
    };

    explicit RedisStream(FileDescriptor socket) : socket_(std::move(socket)) {}
    virtual ~RedisStream() = default;
    RedisStream(const RedisStream&) = delete;
    RedisStream& operator=(const RedisStream&) = delete;

    int descriptor() const { return socket_.value(); }
    virtual Result handshake() { return {}; }
    virtual Result send(std::span<const std::byte> bytes) = 0;
    virtual Result receive(std::span<std::byte> buffer) = 0;

  private:
    FileDescriptor socket_;
};

std::unique_ptr<RedisStream> make_plain_stream(FileDescriptor socket);

}  // namespace kiln
