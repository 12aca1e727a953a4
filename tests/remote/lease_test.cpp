// SPDX-License-Identifier: Apache-2.0
//
// Leases among two caches that stand for two machines: one has it, it is given back, it lives as long as its
// holder, and a little longer.
#include "remote_support.h"

namespace kiln::test {
namespace {

using Right = RemoteCache::Right;

class RemoteLease : public testing::Test {
  protected:
    void SetUp() override {
        KILN_REQUIRE_REDIS();
        server_ = std::make_unique<RedisServer>();
        ours_ = std::make_unique<RemoteCache>(options_for(server_->url()));
        theirs_ = std::make_unique<RemoteCache>(options_for(server_->url()));
    }
    long long life_ms() { return tell(*server_, {"PTTL", "kiln:1:lease:" + digest_}).integer; }

    const std::string digest_ = make_sample("first").key.digest;
    std::unique_ptr<RedisServer> server_;
    std::unique_ptr<RemoteCache> ours_, theirs_;
};

TEST_F(RemoteLease, IsOnesAtATime) {
    auto held = ours_->try_lease(digest_);
    ASSERT_EQ(held.right, Right::mine);
    ASSERT_TRUE(held.lease);
    EXPECT_GT(life_ms(), 0);
    EXPECT_LE(life_ms(), 5000);
    EXPECT_EQ(theirs_->try_lease(digest_).right, Right::theirs);
    EXPECT_EQ(ours_->try_lease(digest_).right, Right::theirs);
    EXPECT_EQ(theirs_->try_lease(make_sample("second").key.digest).right, Right::mine);
    held.lease.reset();
    EXPECT_EQ(theirs_->try_lease(digest_).right, Right::mine);
}

TEST_F(RemoteLease, OutlivesItsCacheObject) {
    auto held = ours_->try_lease(digest_);
    ours_.reset();
    EXPECT_EQ(theirs_->try_lease(digest_).right, Right::theirs);
    held.lease.reset();
    EXPECT_EQ(theirs_->try_lease(digest_).right, Right::mine);
}

TEST_F(RemoteLease, OfAnotherIsNotGivenBack) {
    auto held = ours_->try_lease(digest_);
    tell(*server_, {"SET", "kiln:1:lease:" + digest_, "another holder's token"});
    held.lease.reset();
    EXPECT_EQ(tell(*server_, {"GET", "kiln:1:lease:" + digest_}).text(), "another holder's token");
}

// The end of a lease is a time of the server's clock. Set back by an hour, it leaves an hour to one whose
// holder has died.
TEST_F(RemoteLease, ThatLivesTooLongIsCutShort) {
    for (const char* const life : {"3600000", ""}) {
        tell(*server_, {"SET", "kiln:1:lease:" + digest_, "a dead holder's token"});
        if (*life != '\0') tell(*server_, {"PEXPIRE", "kiln:1:lease:" + digest_, life});
        EXPECT_EQ(ours_->try_lease(digest_).right, Right::theirs);
        EXPECT_GT(life_ms(), 0) << life;
        EXPECT_LE(life_ms(), 5000) << life;
    }
}

TEST_F(RemoteLease, IsNotAskedForWhereNothingCanBeStored) {
    const auto made =
        tell(*server_, {"ACL", "SETUSER", "kiln", "on", ">secret", "~kiln:1:lease:*", "%R~kiln:*", "+@all"});
    if (!made.is_status("OK"))
        GTEST_SKIP() << "this Redis has no keys that may only be read: " << made.text();
    RemoteCache cache(options_for(server_->url("kiln:secret@")));
    EXPECT_EQ(cache.try_lease(digest_).right, Right::mine) << cache.problem();
    const auto sample = make_sample("first");
    EXPECT_FALSE(cache.store(sample.key.digest, sample.entry));
    EXPECT_EQ(cache.try_lease(digest_).right, Right::unavailable);
}

TEST_F(RemoteLease, IsUnavailableWithoutAServer) {
    server_->stop();
    EXPECT_EQ(ours_->try_lease(digest_).right, Right::unavailable);
}

TEST_F(RemoteLease, OfAServerThatWentIsGivenUpInTime) {
    RemoteCache cache(options_for(server_->url(), std::chrono::milliseconds(250)));
    auto held = cache.try_lease(digest_);
    ASSERT_EQ(held.right, Right::mine) << cache.problem();
    server_->signal(SIGSTOP);
    const Stopwatch watch;
    held.lease.reset();
    std::printf("giving a lease back to a stopped server: %.0f ms\n", watch.elapsed_ms());
    EXPECT_LT(watch.elapsed_ms(), 650);
}

TEST_F(RemoteLease, IsLeftToTheParentInAChildOfFork) {
    auto held = ours_->try_lease(digest_);
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(20);
        held.lease.reset();
        ::_exit(theirs_->try_lease(digest_).right == Right::theirs ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(theirs_->try_lease(digest_).right, Right::theirs);
}

// One holder lives and one is killed, in the same six seconds.
TEST_F(RemoteLease, IsRenewedWhileItsHolderLivesAndRunsOutWhenItIsKilled) {
    const auto second = make_sample("second").key.digest;
    const pid_t child = ::fork();
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        auto held = RemoteCache(options_for(server_->url())).try_lease(second);
        if (held.right != Right::mine) ::_exit(1);
        for (;;) ::pause();
    }
    while (tell(*server_, {"EXISTS", "kiln:1:lease:" + second}).integer == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    auto held = ours_->try_lease(digest_);
    ASSERT_EQ(held.right, Right::mine);
    const Stopwatch watch;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (theirs_->try_lease(second).right != Right::mine && watch.elapsed_ms() < 10000)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::printf("a killed holder's lease was free after %.0f ms\n", watch.elapsed_ms());
    EXPECT_LT(watch.elapsed_ms(), 5500);
    while (watch.elapsed_ms() < 6000) {
        EXPECT_EQ(theirs_->try_lease(digest_).right, Right::theirs) << watch.elapsed_ms();
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
}

}  // namespace
}  // namespace kiln::test
