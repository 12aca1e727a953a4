// SPDX-License-Identifier: Apache-2.0
//
// RedisServer: a real redis-server on a free port of this machine, that keeps nothing on disk and ends with
// the test. KILN_REQUIRE_REDIS() skips a test, loudly, where the program is not installed.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/config.h"
#include "base/file.h"
#include "require.h"

namespace kiln::test {

/// Where a program of that name lies in PATH; empty: nowhere.
inline std::string find_program(const std::string& name) {
    for (const auto& directory : config::executable_path()) {
        const auto file = directory / name;
        if (::access(file.c_str(), X_OK) == 0) return file.string();
    }
    return {};
}

/// A listening socket on 127.0.0.1, at a port that the system picks.
inline FileDescriptor listen_on_loopback(int& port) {
    FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* general = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener.value(), general, size) != 0 || ::listen(listener.value(), 16) != 0 ||
        ::getsockname(listener.value(), general, &size) != 0)
        throw std::runtime_error("can't listen on 127.0.0.1");
    port = ntohs(address.sin_port);
    return listener;
}

inline int free_port() {
    int port = 0;
    listen_on_loopback(port);
    return port;
}

inline bool can_connect(int port) {
    const FileDescriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return ::connect(client.value(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

class RedisServer {
  public:
    /// arguments: more of redis-server's own. tls: the port speaks TLS, and the arguments say with what.
    explicit RedisServer(std::vector<std::string> arguments = {}, bool tls = false)
        : arguments_(std::move(arguments)), tls_(tls) {
        start();
    }
    ~RedisServer() { stop(); }
    RedisServer(const RedisServer&) = delete;
    RedisServer& operator=(const RedisServer&) = delete;

    int port() const { return port_; }
    std::string url(const std::string& credentials = "", int database = 0) const {
        return "redis://" + credentials + "127.0.0.1:" + std::to_string(port_) + "/" +
               std::to_string(database);
    }

    /// At the same port as before.
    void start() {
        for (int attempt = 0; attempt < 20 && process_ < 0; ++attempt) {
            if (port_ == 0 || attempt > 10) port_ = free_port();
            spawn();
            wait_until_ready();
        }
        if (process_ < 0) throw std::runtime_error("redis-server does not start");
    }
    void stop() {
        if (process_ < 0) return;
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
        process_ = -1;
    }
    void signal(int number) const { ::kill(process_, number); }

  private:
    void spawn() {
        std::vector<std::string> all = {"redis-server",
                                        "--bind",
                                        "127.0.0.1",
                                        "--save",
                                        "",
                                        "--appendonly",
                                        "no",
                                        "--dir",
                                        directory_.path().string(),
                                        "--loglevel",
                                        "warning",
                                        "--logfile",
                                        (directory_.path() / "log").string(),
                                        tls_ ? "--tls-port" : "--port",
                                        std::to_string(port_)};
        if (tls_) all.insert(all.end(), {"--port", "0"});
        all.insert(all.end(), arguments_.begin(), arguments_.end());
        std::vector<char*> pointers;
        for (auto& argument : all) pointers.push_back(argument.data());
        pointers.push_back(nullptr);
        const std::string program = find_program("redis-server");
        process_ = ::fork();
        if (process_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::execv(program.c_str(), pointers.data());
            ::_exit(127);
        }
    }
    /// Forgets the process when it ended instead: the port was taken meanwhile, say.
    void wait_until_ready() {
        for (int i = 0; i < 2000; ++i) {
            if (::waitpid(process_, nullptr, WNOHANG) != 0) break;
            if (can_connect(port_)) return;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        ::kill(process_, SIGKILL);
        process_ = -1;
    }

    std::vector<std::string> arguments_;
    bool tls_;
    TemporaryDirectory directory_;
    int port_ = 0;
    pid_t process_ = -1;
};

}  // namespace kiln::test

#define KILN_REQUIRE_REDIS()                                                           \
    KILN_REQUIRE_OR_SKIP("redis", !::kiln::test::find_program("redis-server").empty(), \
                         "redis-server is not here")
