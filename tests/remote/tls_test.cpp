// SPDX-License-Identifier: Apache-2.0
//
// TLS to a real server with certificates made here: the right ones are trusted, and no others.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "base/process.h"
#include "cache/redis_tls.h"
#include "remote_support.h"
#include "service/cache_setup.h"
#include "working_directory.h"

namespace kiln::test {
namespace {

using testing::HasSubstr;

class RemoteTls : public testing::Test {
  protected:
    void SetUp() override {
        KILN_REQUIRE_REDIS();
        KILN_REQUIRE_OR_SKIP("openssl", !find_program("openssl").empty(), "the program openssl is not here");
        KILN_REQUIRE_OR_SKIP("tls", tls_available(), "this build has no TLS (KILN_TLS=OFF)");
        make_authority("ca");
        make_authority("other");
    }
    std::string path(const std::string& name) const { return (directory_.path() / name).string(); }
    static void openssl(std::vector<std::string> arguments) {
        ProcessRequest request;
        request.arguments = {
            "openssl", "req",   "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes",  "-days", "3"};
        request.arguments.insert(request.arguments.end(), arguments.begin(), arguments.end());
        const auto result = run_process(request);
        ASSERT_TRUE(result.succeeded()) << result.error;
    }
    void make_authority(const std::string& name) {
        openssl({"-subj", "/CN=" + name, "-keyout", path(name + ".key"), "-out", path(name + ".pem")});
    }
    /// names: "DNS:localhost,IP:127.0.0.1"
    std::unique_ptr<RedisServer> start(const std::string& names) {
        openssl({"-subj", "/CN=server", "-CA", path("ca.pem"), "-CAkey", path("ca.key"), "-addext",
                 "subjectAltName=" + names, "-keyout", path("server.key"), "-out", path("server.pem")});
        return std::make_unique<RedisServer>(
            std::vector<std::string>{"--tls-cert-file", path("server.pem"), "--tls-key-file",
                                     path("server.key"), "--tls-ca-cert-file", path("ca.pem"),
                                     "--tls-auth-clients", "no", "--requirepass", "secret"},
            true);
    }
    RemoteOptions options(const RedisServer& server, const std::string& host,
                          const std::string& authority) const {
        auto result = options_for("rediss://:secret@" + host + ":" + std::to_string(server.port()));
        if (!authority.empty()) result.ca_file = path(authority + ".pem");
        return result;
    }
    std::string problem(const RemoteOptions& options) const {
        RemoteCache cache(options);
        EXPECT_FALSE(cache.store(sample_.key.digest, sample_.entry));
        EXPECT_EQ(cache.failures(), 1U);
        return cache.problem();
    }

    const TemporaryDirectory directory_;
    const Sample sample_ = make_sample("first", 300000);
};

TEST_F(RemoteTls, EntriesPassByNameAndByAddress) {
    const auto server = start("DNS:localhost,IP:127.0.0.1");
    for (const char* host : {"localhost", "127.0.0.1"}) {
        RemoteCache cache(options(*server, host, "ca"));
        ASSERT_TRUE(cache.store(sample_.key.digest, sample_.entry)) << cache.problem();
        EXPECT_EQ(cache.find(sample_.key).entry, sample_.entry) << cache.problem();
        EXPECT_EQ(cache.try_lease(sample_.key.digest).right, RemoteCache::Right::mine);
    }
}

TEST_F(RemoteTls, ARelativeFileOfCertificatesIsThatOfTheBeginning) {
    const auto server = start("IP:127.0.0.1");
    CacheOptions relative;
    relative.remote = options(*server, "127.0.0.1", "");
    relative.remote->ca_file = "ca.pem";
    const WorkingDirectory in(directory_.path());
    const auto cache = open_remote(relative);
    in.go("/");
    EXPECT_TRUE(cache->store(sample_.key.digest, sample_.entry)) << cache->problem();
}

TEST_F(RemoteTls, WhoIsNotTrustedIsNotUsed) {
    const auto server = start("DNS:localhost,IP:127.0.0.1");
    EXPECT_THAT(problem(options(*server, "localhost", "other")),
                HasSubstr("has a certificate that is not trusted"));
    EXPECT_THAT(problem(options(*server, "localhost", "")),
                HasSubstr("has a certificate that is not trusted"));
}

TEST_F(RemoteTls, WhoHasAnotherNameIsNotUsed) {
    const auto server = start("DNS:cache.example,IP:192.0.2.1");
    EXPECT_THAT(problem(options(*server, "localhost", "ca")), HasSubstr("ostname mismatch"));
    EXPECT_THAT(problem(options(*server, "127.0.0.1", "ca")), HasSubstr("IP address mismatch"));
}

TEST_F(RemoteTls, PlainAndTlsDoNotMix) {
    const auto server = start("IP:127.0.0.1");
    RemoteCache plain(options_for("redis://:secret@127.0.0.1:" + std::to_string(server->port())));
    EXPECT_FALSE(plain.find(sample_.key).binary);
    EXPECT_NE(plain.problem(), "");
    const RedisServer without;
    auto tls = options(without, "127.0.0.1", "ca");
    tls.timeout = std::chrono::milliseconds(250);  // it waits for the rest of a command
    EXPECT_NE(problem(tls), "");
}

TEST_F(RemoteTls, ARestartIsNotNoticedAndAnEndRaisesNoSignal) {
    const auto server = start("IP:127.0.0.1");
    RemoteCache cache(options(*server, "127.0.0.1", "ca"));
    ASSERT_TRUE(cache.store(sample_.key.digest, sample_.entry)) << cache.problem();
    server->stop();
    server->start();
    EXPECT_TRUE(cache.store(sample_.key.digest, sample_.entry)) << cache.problem();
    EXPECT_EQ(cache.failures(), 0U);
    server->stop();
    EXPECT_FALSE(cache.store(sample_.key.digest, sample_.entry));
    EXPECT_THAT(cache.problem(), HasSubstr("refused the connection"));
}

TEST_F(RemoteTls, AServerThatStopsInTheHandshakeIsBounded) {
    const FakeServer server([](const FakeServer& self, int client) {
        while (self.listen(client)) {
        }
    });
    auto url = server.url();
    url.insert(5, "s");
    auto options = options_for(url, std::chrono::milliseconds(250));
    options.ca_file = path("ca.pem");  // all of the system's take a sanitizer's time to read
    RemoteCache cache(options);
    const Stopwatch watch;
    EXPECT_FALSE(cache.find(sample_.key).binary);
    std::printf("a silent TLS server: %.0f ms of 250 ms\n", watch.elapsed_ms());
    EXPECT_LT(watch.elapsed_ms(), 650);
}

TEST_F(RemoteTls, AChildOfForkShakesHandsItself) {
    const auto server = start("IP:127.0.0.1");
    RemoteCache cache(options(*server, "127.0.0.1", "ca"));
    ASSERT_TRUE(cache.store(sample_.key.digest, sample_.entry)) << cache.problem();
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(20);
        bool right = true;
        for (int i = 0; i < 20; ++i) right = right && cache.find(sample_.key).entry == sample_.entry;
        ::_exit(right ? 0 : 1);
    }
    for (int i = 0; i < 20; ++i) EXPECT_EQ(cache.find(sample_.key).entry, sample_.entry);
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(cache.find(sample_.key).entry, sample_.entry);
    EXPECT_EQ(cache.failures(), 0U);
}

// Threads are inside of OpenSSL, whose locks are not for fork(), nearly all the time.
TEST_F(RemoteTls, ChildrenOfABusyParentAreNotStuck) {
#if defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "AddressSanitizer's own allocator may be locked in such a child";
#endif
    const auto server = start("IP:127.0.0.1");
    const auto settings = options(*server, "127.0.0.1", "ca");
    std::atomic<bool> over{false};
    std::vector<std::thread> busy;
    for (int i = 0; i < 3; ++i)
        busy.emplace_back([&] {
            while (!over) RemoteCache(settings).find(sample_.key);
        });
    for (int i = 0; i < 40; ++i) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::alarm(20);
            try {
                ::_exit(RemoteCache(settings).ping().count() > 0 ? 0 : 2);
            } catch (const std::exception& error) {
                std::fprintf(stderr, "child %d: %s\n", i, error.what());
                ::_exit(1);
            }
        }
        int status = -1;
        ::waitpid(child, &status, 0);
        EXPECT_FALSE(WIFSIGNALED(status)) << "child " << i << " ended by signal " << WTERMSIG(status);
        EXPECT_EQ(WEXITSTATUS(status), 0) << "child " << i;
    }
    over = true;
    for (auto& thread : busy) thread.join();
}

// fork() waits for those inside, but not for one that stays there: here, to read certificates from a pipe.
TEST_F(RemoteTls, ForkDoesNotWaitForEver) {
    const auto pipe = path("pipe");
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    std::thread inside([&] { EXPECT_THROW(TlsContext{pipe}, RedisFailure); });
    FileDescriptor writer;
    // Opens only when the other side is there.
    while (!writer) {
        writer = FileDescriptor(::open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const Stopwatch watch;
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(20);
        const TlsContext context(path("ca.pem"));
        ::_exit(0);
    }
    EXPECT_LT(watch.elapsed_ms(), 2000);
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    writer.reset();
    inside.join();
    const TlsContext context(path("ca.pem"));
}

}  // namespace
}  // namespace kiln::test
