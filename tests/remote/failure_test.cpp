// SPDX-License-Identifier: Apache-2.0
//
// Servers that are gone, slow, stopped, restarted, emptied or out of their minds: a call takes its time limit
// at most, the next ones nothing, and a server that is back is used again.
#include <gmock/gmock.h>
#include <kiln/error.h>

#include "remote_support.h"

namespace kiln::test {
namespace {

using testing::HasSubstr;

constexpr std::chrono::milliseconds kLimit{250};
// What a busy machine may add.
constexpr double kSlack = 400;

class RemoteFailure : public testing::Test {
  protected:
    /// The first call fails within the limit, with these words; those that follow are not made.
    void expect_bounded(const std::string& what, RemoteCache& cache, const std::string& words) {
        const Stopwatch first;
        EXPECT_FALSE(cache.find(sample_.key).binary);
        const double first_ms = first.elapsed_ms();
        EXPECT_LT(first_ms, static_cast<double>(kLimit.count()) + kSlack);
        EXPECT_THAT(cache.problem(), HasSubstr(words));
        EXPECT_THAT(cache.problem(), HasSubstr("left alone for 30 s"));
        EXPECT_EQ(cache.failures(), 1U);

        const Stopwatch next;
        for (int i = 0; i < 100; ++i) {
            EXPECT_FALSE(cache.find(sample_.key).binary);
            EXPECT_FALSE(cache.store(sample_.key.digest, sample_.entry));
            EXPECT_EQ(cache.try_lease(sample_.key.digest).right, RemoteCache::Right::unavailable);
        }
        const double next_us = next.elapsed_us() / 300;
        EXPECT_LT(next_us, 1000);
        EXPECT_EQ(cache.failures(), 1U);
        std::printf("%s: %.1f ms of %lld ms, then %.1f us a call\n", what.c_str(), first_ms,
                    static_cast<long long>(kLimit.count()), next_us);
    }
    void expect_bounded(const std::string& what, const std::string& words, FakeServer::Serve serve) {
        const FakeServer server(std::move(serve));
        RemoteCache cache(options_for(server.url(), kLimit));
        expect_bounded(what, cache, words);
    }

    const Sample sample_ = make_sample("first");
};

TEST_F(RemoteFailure, NobodyListens) {
    RemoteCache cache(options_for("redis://127.0.0.1:" + std::to_string(free_port()), kLimit));
    expect_bounded("nobody listens", cache, "refused the connection");
    EXPECT_THROW(cache.ping(), CacheError);
}

TEST_F(RemoteFailure, AHostThatSwallowsPackets) {
    // Documentation's addresses (RFC 5737) lead nowhere; where there is no network they fail at once.
    RemoteCache cache(options_for("redis://192.0.2.1", kLimit));
    expect_bounded("no such host", cache, "192.0.2.1:6379/0 ");
}

TEST_F(RemoteFailure, ANameThatDoesNotResolve) {
    RemoteCache cache(options_for("redis://no-such-host.invalid", kLimit));
    expect_bounded("no such name", cache, "no-such-host.invalid:6379/0 ");
}

TEST_F(RemoteFailure, ASilentServer) {
    expect_bounded("silent", "did not answer within 250 ms", [](const FakeServer& self, int client) {
        while (self.listen(client)) {
        }
    });
}

TEST_F(RemoteFailure, AServerThatTakesFiveSeconds) {
    expect_bounded("5 s for an answer", "did not answer", [](const FakeServer& self, int client) {
        self.listen(client);
        self.sleep(std::chrono::seconds(5));
        FakeServer::say(client, "$-1\r\n");
    });
}

TEST_F(RemoteFailure, AServerThatTrickles) {
    expect_bounded("a byte every 20 ms", "did not answer", [](const FakeServer& self, int client) {
        self.listen(client);
        FakeServer::say(client, "$1000\r\n");
        while (self.running() && FakeServer::say(client, "x")) self.sleep(std::chrono::milliseconds(20));
    });
}

TEST_F(RemoteFailure, AServerThatSpeaksSomethingElse) {
    expect_bounded("another protocol", "not Redis' protocol", [](const FakeServer& self, int client) {
        self.listen(client);
        FakeServer::say(client, "HTTP/1.1 400 Bad Request\r\n\r\n");
        self.listen(client);
    });
}

TEST_F(RemoteFailure, AServerThatHangsUp) {
    expect_bounded("hangs up", "closed the connection",
                   [](const FakeServer& self, int client) { self.listen(client); });
}

TEST_F(RemoteFailure, AServerThatClaimsTenGigabytes) {
    expect_bounded("10 GB", "", [](const FakeServer& self, int client) {
        self.listen(client);
        FakeServer::say(client, "$10737418240\r\n");
        const std::string much(1 << 20, 'x');
        while (self.running() && FakeServer::say(client, much)) {
        }
    });
}

TEST_F(RemoteFailure, AServerWhoseLineNeverEnds) {
    expect_bounded("an endless line", "", [](const FakeServer& self, int client) {
        self.listen(client);
        const std::string much(1 << 20, 'x');
        FakeServer::say(client, "+");
        while (self.running() && FakeServer::say(client, much)) {
        }
    });
}

TEST_F(RemoteFailure, AServerThatClaimsAnArrayOfBillions) {
    expect_bounded("an array of billions", "larger than any answer", [](const FakeServer& self, int client) {
        self.listen(client);
        FakeServer::say(client, "*2147483647\r\n");
        self.listen(client);
    });
}

TEST_F(RemoteFailure, AServerThatIsStillLoading) {
    expect_bounded("loading", "answered with an error: LOADING", [](const FakeServer& self, int client) {
        while (self.listen(client))
            FakeServer::say(client, "-LOADING Redis is loading the dataset in memory\r\n");
    });
}

TEST_F(RemoteFailure, RejectionsOfSeveralThreadsAtOnceAreOneFailureOfTheServer) {
    KILN_REQUIRE_REDIS();
    const RedisServer server;
    tell(server, {"ACL", "SETUSER", "nobody", "on", ">secret", "~kiln:*", "-@all", "+ping"});
    RemoteCache cache(options_for(server.url("nobody:secret@")));
    cache.ping();
    server.signal(SIGSTOP);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { cache.find(sample_.key); });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    server.signal(SIGCONT);
    for (auto& thread : threads) thread.join();
    EXPECT_THAT(cache.problem(), HasSubstr("left alone for 30 s"));
}

TEST_F(RemoteFailure, AServerThatTakesNoMoreClientsIsDistinguishedFromAWrongPassword) {
    const FakeServer server([](const FakeServer&, int client) {
        FakeServer::say(client, "-ERR max number of clients reached\r\n");
        ::shutdown(client, SHUT_WR);
        char rest[100];
        while (::recv(client, rest, sizeof(rest), 0) > 0) {
        }
    });
    RemoteCache cache(options_for(server.url(":secret@")));
    EXPECT_FALSE(cache.find(sample_.key).binary);
    EXPECT_THAT(cache.problem(), HasSubstr("max number of clients reached;"));
}

TEST_F(RemoteFailure, ThreadsOfADeadServerWaitTogether) {
    const FakeServer server([](const FakeServer& self, int client) {
        while (self.listen(client)) {
        }
    });
    RemoteCache cache(options_for(server.url(), kLimit));
    const Stopwatch watch;
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; ++i) threads.emplace_back([&] { cache.find(sample_.key); });
    for (auto& thread : threads) thread.join();
    EXPECT_LT(watch.elapsed_ms(), static_cast<double>(kLimit.count()) + kSlack);
    EXPECT_EQ(server.connections(), 1);
}

TEST_F(RemoteFailure, AStoppedServer) {
    KILN_REQUIRE_REDIS();
    const RedisServer server;
    RemoteCache fresh(options_for(server.url(), kLimit));
    RemoteCache connected(options_for(server.url(), kLimit));
    ASSERT_TRUE(connected.store(sample_.key.digest, sample_.entry)) << connected.problem();
    server.signal(SIGSTOP);
    expect_bounded("stopped, a new connection", fresh, "did not answer");
    expect_bounded("stopped, a kept connection", connected, "did not answer");
    server.signal(SIGCONT);
    // It is left alone, but an operator's question finds that it is back.
    EXPECT_FALSE(connected.find(sample_.key).binary);
    EXPECT_GT(connected.ping().count(), 0);
    EXPECT_EQ(connected.problem(), "");
    EXPECT_TRUE(connected.find(sample_.key).binary);
}

TEST_F(RemoteFailure, ARestartIsNotNoticed) {
    KILN_REQUIRE_REDIS();
    RedisServer server;
    RemoteCache cache(options_for(server.url()));
    ASSERT_TRUE(cache.store(sample_.key.digest, sample_.entry));
    server.stop();
    server.start();
    const auto found = cache.find(sample_.key);
    EXPECT_FALSE(found.binary) << "it keeps nothing on disk";
    EXPECT_EQ(cache.problem() + found.rejected, "");
    server.stop();
    server.start();
    const auto large = make_sample("large", 5 << 20);
    EXPECT_TRUE(cache.store(large.key.digest, large.entry)) << cache.problem();
    EXPECT_EQ(cache.failures(), 0U);
}

TEST_F(RemoteFailure, AServerThatGoesIsLeftAloneAndRaisesNoSignal) {
    KILN_REQUIRE_REDIS();
    RedisServer server;
    RemoteCache cache(options_for(server.url(), kLimit));
    ASSERT_TRUE(cache.find(sample_.key).rejected.empty());
    server.stop();
    const auto large = make_sample("large", 5 << 20);
    EXPECT_FALSE(cache.store(large.key.digest, large.entry));
    EXPECT_THAT(cache.problem(), HasSubstr("refused the connection"));
}

TEST_F(RemoteFailure, AnEmptiedServerMisses) {
    KILN_REQUIRE_REDIS();
    const RedisServer server;
    RemoteCache cache(options_for(server.url()));
    ASSERT_TRUE(cache.store(sample_.key.digest, sample_.entry));
    tell(server, {"FLUSHALL"});
    const auto found = cache.find(sample_.key);
    EXPECT_FALSE(found.binary);
    EXPECT_EQ(found.place + found.rejected + cache.problem(), "");
}

TEST_F(RemoteFailure, AServerThatClosesIdleConnectionsIsAskedAgain) {
    KILN_REQUIRE_REDIS();
    const RedisServer server;
    RemoteCache cache(options_for(server.url()));
    ASSERT_TRUE(cache.store(sample_.key.digest, sample_.entry));
    tell(server, {"CLIENT", "KILL", "TYPE", "normal"});
    EXPECT_TRUE(cache.find(sample_.key).binary);
    EXPECT_EQ(cache.failures(), 0U);
}

// The child's connections are its own, and so is its right to use them: threads of its parent had them all.
TEST_F(RemoteFailure, AChildOfForkBeginsAnew) {
    KILN_REQUIRE_REDIS();
    const RedisServer server;
    RemoteCache cache(options_for(server.url()));
    const auto second = make_sample("second");
    ASSERT_TRUE(cache.store(sample_.key.digest, sample_.entry));
    ASSERT_TRUE(cache.store(second.key.digest, second.entry));
    server.signal(SIGSTOP);
    std::vector<std::thread> asking;
    for (int i = 0; i < 8; ++i)
        asking.emplace_back([&] { EXPECT_EQ(cache.find(sample_.key).entry, sample_.entry); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(20);
        bool right = true;
        for (int i = 0; i < 200; ++i) right = right && cache.find(second.key).entry == second.entry;
        ::_exit(right && cache.problem().empty() ? 0 : 1);
    }
    server.signal(SIGCONT);
    for (int i = 0; i < 200; ++i) EXPECT_EQ(cache.find(sample_.key).entry, sample_.entry);
    for (auto& thread : asking) thread.join();
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(cache.failures(), 0U);
}

}  // namespace
}  // namespace kiln::test
