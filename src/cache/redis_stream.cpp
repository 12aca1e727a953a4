// SPDX-License-Identifier: Apache-2.0
//
// Deadlines, name look-up, connecting, and the plain stream.
#include "cache/redis_stream.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/blocked_signals.h"
#include "format/format.h"

namespace kiln {
namespace {

std::string error_text(int error) { return std::generic_category().message(error); }

struct FreeAddresses {
    void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses look_up(const std::string& host, std::uint16_t port, int flags, int& error) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    addrinfo* list = nullptr;
    error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
    return Addresses(error == 0 ? list : nullptr);
}

// getaddrinfo() has no time limit of its own, and takes many seconds where a name server is gone.
Addresses resolve(const std::string& host, std::uint16_t port, const Deadline& deadline) {
    int error = 0;
    if (auto addresses = look_up(host, port, AI_NUMERICHOST, error)) return addresses;

    struct Shared {
        std::mutex mutex;
        std::condition_variable ready;
        bool done = false;
        int error = 0;
        Addresses addresses;
    };
    const auto shared = std::make_shared<Shared>();
    try {
        const BlockedSignals blocked;
        std::thread([shared, host, port] {
            int result = 0;
            auto found = look_up(host, port, 0, result);
            const std::lock_guard lock(shared->mutex);
            shared->addresses = std::move(found);
            shared->error = result;
            shared->done = true;
            shared->ready.notify_all();
        }).detach();
    } catch (const std::system_error& problem) {
        throw RedisFailure("could not be looked up (" + problem.code().message() + ")");
    }
    std::unique_lock lock(shared->mutex);
    if (!shared->ready.wait_until(lock, deadline.end(), [&] { return shared->done; }))
        throw RedisFailure("has a host name that took too long to resolve");
    if (!shared->addresses)
        throw RedisFailure("has a host name that can't be resolved (" +
                           std::string(::gai_strerror(shared->error)) + ")");
    return std::move(shared->addresses);
}

/// Empty, and `error` says why, when this address can't be connected.
FileDescriptor try_connect(const addrinfo& address, const Deadline& deadline,
                           Deadline::Clock::time_point until, int& error) {
    FileDescriptor socket(
        ::socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
    error = errno;
    if (!socket) return {};
    const int on = 1;
    (void)::setsockopt(socket.value(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (::connect(socket.value(), address.ai_addr, address.ai_addrlen) != 0) {
        error = errno;
        if (error != EINPROGRESS && error != EINTR) return {};
        error = ETIMEDOUT;
        if (!deadline.wait(socket.value(), POLLOUT, until)) return {};
        socklen_t size = sizeof(error);
        if (::getsockopt(socket.value(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
        if (error != 0) return {};
    }
    return socket;
}

class PlainStream : public RedisStream {
  public:
    using RedisStream::RedisStream;

    Result send(std::span<const std::byte> bytes) override {
        // A server that has gone must not raise SIGPIPE in the application.
        return result(::send(descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
                      Result::Status::wait_to_write);
    }

    Result receive(std::span<std::byte> buffer) override {
        const auto count = ::recv(descriptor(), buffer.data(), buffer.size(), 0);
        if (count == 0) return {Result::Status::closed, 0};
        return result(count, Result::Status::wait_to_read);
    }

  private:
    static Result result(ssize_t count, Result::Status wait) {
        if (count >= 0) return {Result::Status::done, static_cast<std::size_t>(count)};
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {wait, 0};
        if (errno == EPIPE || errno == ECONNRESET) return {Result::Status::closed, 0};
        throw RedisFailure("failed (" + error_text(errno) + ")");
    }
};

}  // namespace

void Deadline::check() const {
    if (left() <= std::chrono::nanoseconds(0))
        throw RedisFailure(formatted("did not answer within {} ms", limit_.count()));
}

bool Deadline::wait(int descriptor, short events, Clock::time_point until) const {
    for (;;) {
        check();
        const auto left = std::min(until, end_) - Clock::now();
        if (left <= std::chrono::nanoseconds(0)) return false;
        // Rounded up, so as not to spin during the last millisecond.
        const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
        pollfd poll{descriptor, events, 0};
        const int count = ::poll(&poll, 1, static_cast<int>(milliseconds));
        if (count > 0) return true;
        if (count < 0 && errno != EINTR)
            throw RedisFailure("could not be waited for (" + error_text(errno) + ")");
    }
}

FileDescriptor connect_socket(const std::string& host, std::uint16_t port, const Deadline& deadline) {
    const auto addresses = resolve(host, port, deadline);
    int count = 0;
    for (const auto* address = addresses.get(); address != nullptr; address = address->ai_next) ++count;
    int error = 0;
    for (const auto* address = addresses.get(); address != nullptr; address = address->ai_next, --count) {
        // An address that drops packets must leave time for the next one.
        const auto until = Deadline::Clock::now() + deadline.left() / count;
        if (auto socket = try_connect(*address, deadline, until, error)) return socket;
    }
    if (error == ECONNREFUSED) throw RedisFailure("refused the connection");
    throw RedisFailure("can't be reached (" + error_text(error) + ")");
}

std::unique_ptr<RedisStream> make_plain_stream(FileDescriptor socket) {
    return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace kiln
