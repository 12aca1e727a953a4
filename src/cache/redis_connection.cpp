// SPDX-License-Identifier: Apache-2.0
//
// Opens and authenticates a connection, sends a command and reads its reply, all within one deadline.
#include "cache/redis_connection.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "format/format.h"

namespace kiln {
namespace {

// Network equipment may drop an idle connection, and then discards packets silently.
constexpr std::chrono::seconds kKeepIdle{30};
constexpr std::size_t kBufferBytes = 65536;

void replace_all(std::string& text, const std::string& from, const std::string& to) {
    for (auto at = text.find(from); !from.empty() && at != std::string::npos;
         at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
}

}  // namespace

std::string RedisSettings::quote(std::string_view words) const {
    std::string text(words);
    replace_all(text, url.password, "***");
    replace_all(text, url.user, "***");
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
    if (text.size() > 160) return text.substr(0, 160) + "...";
    while (text.ends_with('.')) text.pop_back();
    return text;
}

RedisReply RedisConnection::exchange(const RedisCommand& command, const Deadline& deadline) {
    try {
        if (stream_ && Deadline::Clock::now() - last_used_ > kKeepIdle) close();
        const bool kept = stream_ != nullptr;
        if (!kept) open(deadline);
        std::optional<RedisReply> reply;
        try {
            reply = send_and_receive(command, deadline);
        } catch (const RedisConnectionLost&) {
            if (!kept) throw;
            close();
            open(deadline);
            reply = send_and_receive(command, deadline);
        }
        last_used_ = Deadline::Clock::now();
        return std::move(*reply);
    } catch (const RedisProtocolError& error) {
        close();
        throw RedisFailure(std::string("can't be understood: ") + error.what());
    } catch (...) {
        close();
        throw;
    }
}

void RedisConnection::close() { stream_.reset(); }

void RedisConnection::open(const Deadline& deadline) {
    auto socket = connect_socket(settings_.url.host, settings_.url.port, deadline);
    stream_ = tls_ != nullptr ? tls_->make_stream(std::move(socket), settings_.url.host)
                              : make_plain_stream(std::move(socket));
    reader_ = RedisReader();
    buffer_.resize(kBufferBytes);
    transfer([&] { return stream_->handshake(); }, deadline);

    const auto& url = settings_.url;
    if (!url.password.empty()) {
        const auto reply = send_and_receive(url.user.empty() ? RedisCommand{"AUTH", url.password}
                                                             : RedisCommand{"AUTH", url.user, url.password},
                                            deadline);
        // Behind a quotation mark it may repeat what was sent, and not all of it, so that quote() misses it.
        if (!reply.is_status("OK"))
            throw RedisFailure("rejected the user or password: " +
                               settings_.quote(reply.text().substr(0, reply.text().find_first_of("'`\""))));
    }
    if (url.database != 0) {
        const auto reply = send_and_receive({"SELECT", std::to_string(url.database)}, deadline);
        if (!reply.is_status("OK"))
            throw RedisFailure(
                formatted("rejected database {} ({})", url.database, settings_.quote(reply.text())));
    }
}

RedisReply RedisConnection::send_and_receive(const RedisCommand& command, const Deadline& deadline) {
    for (auto rest = command.bytes(); !rest.empty();)
        rest = rest.subspan(transfer([&] { return stream_->send(rest); }, deadline));
    for (;;) {
        const auto count = transfer([&] { return stream_->receive(buffer_); }, deadline);
        if (auto reply = reader_.feed(std::span(buffer_).first(count))) return std::move(*reply);
    }
}

std::size_t RedisConnection::transfer(const std::function<RedisStream::Result()>& step,
                                      const Deadline& deadline) {
    using Status = RedisStream::Result::Status;
    for (;;) {
        deadline.check();
        const auto result = step();
        switch (result.status) {
            case Status::done:
                return result.count;
            case Status::closed:
                throw RedisConnectionLost("closed the connection");
            case Status::wait_to_read:
                deadline.wait(stream_->descriptor(), POLLIN);
                break;
            case Status::wait_to_write:
                deadline.wait(stream_->descriptor(), POLLOUT);
                break;
        }
    }
}

}  // namespace kiln
