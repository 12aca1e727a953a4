// SPDX-License-Identifier: Apache-2.0
//
// Entries to store, options for a server, a way to talk to it directly, and servers that misbehave.
#pragma once

#include <kiln/cache.h>
#include <poll.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "base/digest.h"
#include "base/stopwatch.h"
#include "cache/entry.h"
#include "cache/redis_client.h"
#include "cache/remote_cache.h"
#include "redis_server.h"

namespace kiln::test {

struct Sample {
    BuildKey key;
    Binary binary;
    Bytes entry;
};

inline Sample make_sample(const std::string& name, std::size_t bytes = 200) {
    Sample sample;
    sample.key.text = "kiln-key 1\nsource " + std::to_string(name.size()) + "\n" + name + "\n";
    sample.key.digest = digest_hex(sample.key.text);
    std::vector<std::byte> content(bytes);
    for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<std::byte>(i * 2654435761U >> 13);
    sample.binary.entry = "kernel";
    sample.binary.bytes = Bytes(std::move(content));
    sample.binary.log = "no warnings";
    sample.binary.compiler = "a compiler";
    sample.entry = encode_entry(sample.key, sample.binary);
    return sample;
}

inline std::string entry_key(const Sample& sample) { return "kiln:1:entry:" + sample.key.digest; }

/// With a time limit that a busy machine does not reach.
inline RemoteOptions options_for(const std::string& url,
                                 std::chrono::milliseconds timeout = std::chrono::milliseconds(10000)) {
    RemoteOptions options;
    options.url = url;
    options.timeout = timeout;
    return options;
}

/// A client of the test's own.
inline RedisReply tell(const RedisServer& server, std::initializer_list<std::string_view> words,
                       int database = 0) {
    RedisClient client({parse_redis_url(server.url("", database)), {}, std::chrono::milliseconds(10000)});
    return client.call(RedisCommand(words));
}

inline std::string_view view(const Bytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Accepts connections one after the other and lets `serve` speak to each until it returns or running() ends.
class FakeServer {
  public:
    using Serve = std::function<void(const FakeServer& server, int descriptor)>;

    explicit FakeServer(Serve serve) : listener_(listen_on_loopback(port_)) {
        thread_ = std::thread([this, serve = std::move(serve)] {
            while (running()) {
                pollfd poll{listener_.value(), POLLIN, 0};
                if (::poll(&poll, 1, 20) <= 0) continue;
                const FileDescriptor client(::accept4(listener_.value(), nullptr, nullptr, SOCK_CLOEXEC));
                ++connections_;
                serve(*this, client.value());
            }
        });
    }
    ~FakeServer() {
        running_ = false;
        thread_.join();
    }

    bool running() const { return running_; }
    int connections() const { return connections_; }
    std::string url(const std::string& credentials = "") const {
        return "redis://" + credentials + "127.0.0.1:" + std::to_string(port_);
    }
    /// False when the other side has gone.
    static bool say(int descriptor, std::string_view text) {
        return ::send(descriptor, text.data(), text.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(text.size());
    }
    /// Waits for a request; false when none comes.
    bool listen(int descriptor) const {
        while (running()) {
            pollfd poll{descriptor, POLLIN, 0};
            if (::poll(&poll, 1, 20) <= 0) continue;
            char buffer[65536];
            return ::recv(descriptor, buffer, sizeof(buffer), 0) > 0;
        }
        return false;
    }
    void sleep(std::chrono::milliseconds time) const {
        const Stopwatch watch;
        while (running() && watch.elapsed_ms() < static_cast<double>(time.count()))
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }

  private:
    int port_ = 0;
    FileDescriptor listener_;
    std::atomic<bool> running_{true};
    std::atomic<int> connections_{0};
    std::thread thread_;
};

}  // namespace kiln::test
