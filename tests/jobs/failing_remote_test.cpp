// SPDX-License-Identifier: Apache-2.0
//
// The main job with servers that are down, slow, emptied, or have wrong entries: it passes, and the
// additional time is limited and printed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "../cli/program.h"
#include "../remote/remote_support.h"

namespace kiln::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kLimitMs = 500;   // of one exchange, the default
constexpr double kSlackMs = 1500;  // of a busy machine, on a job that compiles

class JobWithRemote : public JitGemm {
  protected:
    /// A new cache directory each time, as on another machine.
    Environment machine(const std::string& url, const std::string& key_file = "") {
        Environment environment = {{"KILN_CACHE_DIR", path("cache" + std::to_string(++machines_)).string()}};
        if (!url.empty()) environment.emplace_back("KILN_REMOTE", url);
        if (!key_file.empty()) environment.emplace_back("KILN_REMOTE_KEY_FILE", key_file);
        return environment;
    }
    std::pair<Outcome, double> timed(const Environment& environment) {
        const Stopwatch watch;
        auto outcome = multiply({"--json"}, environment);
        return {std::move(outcome), watch.elapsed_ms()};
    }
    /// Where the kernel came from, after the job has passed.
    static std::string origin(const Outcome& outcome) {
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return outcome.status == 0 ? outcome.json()["cache"].get<std::string>() : "";
    }
    void expect_passes(const std::string& what, const std::string& url, const std::string& words) {
        const double without_ms = timed(machine("")).second;
        const auto [outcome, with_ms] = timed(machine(url));
        EXPECT_EQ(origin(outcome), "compiled");
        EXPECT_THAT(outcome.err, HasSubstr(words));
        EXPECT_LT(with_ms, without_ms + kLimitMs + kSlackMs);
        std::printf("%s: the job takes %.0f ms, without a remote %.0f ms\n", what.c_str(), with_ms,
                    without_ms);
    }

  private:
    int machines_ = 0;
};

TEST_F(JobWithRemote, NobodyListens) {
    expect_passes("nobody listens", "redis://127.0.0.1:" + std::to_string(free_port()),
                  "refused the connection");
}

TEST_F(JobWithRemote, AnswersTakeFiveSeconds) {
    const FakeServer slow([](const FakeServer& self, int client) {
        while (self.listen(client)) {
            self.sleep(std::chrono::seconds(5));
            FakeServer::say(client, "$-1\r\n");
        }
    });
    expect_passes("answers after 5 s", slow.url(), "did not answer within 500 ms");
}

TEST_F(JobWithRemote, AnotherProgramListens) {
    const FakeServer other([](const FakeServer& self, int client) {
        if (self.listen(client)) FakeServer::say(client, "HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    expect_passes("no Redis", other.url(), "127.0.0.1");
}

TEST_F(JobWithRemote, AStoppedServer) {
    KILN_REQUIRE_REDIS();
    const RedisServer server;
    server.signal(SIGSTOP);
    expect_passes("stopped", server.url(), "did not answer within 500 ms");
    server.signal(SIGCONT);
}

TEST_F(JobWithRemote, OneMachineServesTheOtherAndARestartCostsOneCompile) {
    KILN_REQUIRE_REDIS();
    RedisServer server;
    EXPECT_EQ(origin(timed(machine(server.url())).first), "compiled");
    EXPECT_EQ(origin(timed(machine(server.url())).first), "remote");
    tell(server, {"FLUSHALL"});
    EXPECT_EQ(origin(timed(machine(server.url())).first), "compiled");
    server.stop();
    server.start();  // and empty again
    EXPECT_EQ(origin(timed(machine(server.url())).first), "compiled");
    EXPECT_EQ(origin(timed(machine(server.url())).first), "remote");
}

TEST_F(JobWithRemote, GarbageIsRejectedAndReplaced) {
    KILN_REQUIRE_REDIS();
    const RedisServer server;
    EXPECT_EQ(origin(timed(machine(server.url())).first), "compiled");
    const RedisReply keys = tell(server, {"KEYS", "kiln:1:entry:*"});
    ASSERT_EQ(keys.elements.size(), 1U);
    tell(server, {"SET", keys.elements[0].text(), "garbage"});
    const auto outcome = timed(machine(server.url())).first;
    EXPECT_EQ(origin(outcome), "compiled");
    EXPECT_THAT(outcome.err, HasSubstr("not used"));
    EXPECT_EQ(origin(timed(machine(server.url())).first), "remote");
}

TEST_F(JobWithRemote, AnEntryOfAnotherSignatureIsRejected) {
    KILN_REQUIRE_REDIS();
    const RedisServer server;
    const auto ours = write("ours", "0123456789abcdef0123456789abcdef");
    const auto theirs = write("theirs", "fedcba9876543210fedcba9876543210");
    EXPECT_EQ(origin(timed(machine(server.url(), theirs)).first), "compiled");
    EXPECT_EQ(origin(timed(machine(server.url(), theirs)).first), "remote");
    const auto outcome = timed(machine(server.url(), ours)).first;
    EXPECT_EQ(origin(outcome), "compiled");
    EXPECT_THAT(outcome.err, HasSubstr("signature"));
    EXPECT_THAT(outcome.err, Not(HasSubstr("0123456789")));
}

}  // namespace
}  // namespace kiln::test
