// SPDX-License-Identifier: Apache-2.0
//
// Entries to and from a real server: what is stored is found, by whom it may be, and nothing else is.
#include <gmock/gmock.h>
#include <kiln/error.h>

#include <algorithm>
#include <set>

#include "remote_support.h"

namespace kiln::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class RemoteExchange : public testing::Test {
  protected:
    void SetUp() override { KILN_REQUIRE_REDIS(); }
    const Sample sample_ = make_sample("first");
};

TEST_F(RemoteExchange, AnEntryComesBackAsItWas) {
    const RedisServer server;
    RemoteCache writer(options_for(server.url()));
    RemoteCache reader(options_for(server.url()));
    EXPECT_EQ(writer.place(), server.url());
    EXPECT_FALSE(reader.find(sample_.key).binary);
    ASSERT_TRUE(writer.store(sample_.key.digest, sample_.entry));
    const auto found = reader.find(sample_.key);
    ASSERT_TRUE(found.binary) << found.rejected;
    EXPECT_EQ(found.binary->bytes, sample_.binary.bytes);
    EXPECT_EQ(found.binary->log, sample_.binary.log);
    EXPECT_EQ(found.entry, sample_.entry);
    EXPECT_EQ(found.place, server.url());
    EXPECT_EQ(found.rejected, "");
    EXPECT_EQ(reader.problem() + writer.problem(), "");
    EXPECT_EQ(reader.failures() + writer.failures(), 0U);
    // As on disk, byte for byte.
    EXPECT_EQ(tell(server, {"GET", entry_key(sample_)}).text(), view(sample_.entry));
}

TEST_F(RemoteExchange, LargeEntriesPassAndTooLargeOnesAreRejectedHere) {
    const RedisServer server;
    RemoteCache cache(options_for(server.url(), std::chrono::milliseconds(30000)));
    const auto large = make_sample("large", std::size_t{8} << 20);
    ASSERT_TRUE(cache.store(large.key.digest, large.entry)) << cache.problem();
    EXPECT_EQ(cache.find(large.key).entry, large.entry) << cache.problem();
    const Bytes beyond(std::vector<std::byte>((std::size_t{64} << 20) + 1));
    EXPECT_FALSE(cache.store(sample_.key.digest, beyond));
    EXPECT_THROW(cache.put(sample_.key.digest, beyond), CacheError);
    EXPECT_EQ(cache.problem(), "");
}

TEST_F(RemoteExchange, ReadOnlyStoresAndLeasesNothing) {
    const RedisServer server;
    auto options = options_for(server.url());
    options.read_only = true;
    RemoteCache cache(options);
    EXPECT_TRUE(cache.read_only());
    EXPECT_FALSE(cache.store(sample_.key.digest, sample_.entry));
    EXPECT_EQ(cache.try_lease(sample_.key.digest).right, RemoteCache::Right::unavailable);
    EXPECT_THROW(cache.put(sample_.key.digest, sample_.entry), CacheError);
    EXPECT_EQ(tell(server, {"DBSIZE"}).integer, 0);
    RemoteCache(options_for(server.url())).put(sample_.key.digest, sample_.entry);
    EXPECT_TRUE(cache.find(sample_.key).binary);
}

TEST_F(RemoteExchange, DatabasesAreKeptApart) {
    const RedisServer server;
    RemoteCache third(options_for(server.url("", 3)));
    ASSERT_TRUE(third.store(sample_.key.digest, sample_.entry));
    EXPECT_FALSE(RemoteCache(options_for(server.url("", 0))).find(sample_.key).binary);
    EXPECT_TRUE(RemoteCache(options_for(server.url("", 3))).find(sample_.key).binary);
    RemoteCache none(options_for(server.url("", 99)));
    EXPECT_FALSE(none.find(sample_.key).binary);
    EXPECT_THAT(none.problem(), HasSubstr("rejected database 99"));
}

TEST_F(RemoteExchange, PasswordsOpenAndWrongOnesAreNeverRepeated) {
    const RedisServer server({"--requirepass", "correct horse"});
    const TemporaryDirectory directory;
    const auto file = directory.path() / "password";
    write_text(file, "correct horse\r\nanother line\n");
    RemoteCache by_url(options_for(server.url(":correct%20horse@")));
    EXPECT_TRUE(by_url.store(sample_.key.digest, sample_.entry)) << by_url.problem();
    auto options = options_for(server.url());
    options.password_file = file;
    RemoteCache by_file(options);
    EXPECT_TRUE(by_file.find(sample_.key).binary) << by_file.problem();
    EXPECT_EQ(by_file.place(), server.url());

    RemoteCache wrong(options_for(server.url("somebody:hunter2@")));
    EXPECT_FALSE(wrong.find(sample_.key).binary);
    EXPECT_THAT(wrong.problem(), HasSubstr("rejected the user or password: WRONGPASS"));
    RemoteCache without(options_for(server.url()));
    EXPECT_FALSE(without.find(sample_.key).binary);
    EXPECT_THAT(without.problem(), HasSubstr("NOAUTH"));
    try {
        wrong.ping();
        FAIL() << "a wrong password was taken";
    } catch (const CacheError& error) {
        const std::string all = wrong.problem() + error.what() + wrong.place();
        EXPECT_THAT(all, Not(HasSubstr("hunter2")));
        EXPECT_THAT(all, Not(HasSubstr("somebody")));
    }
}

TEST_F(RemoteExchange, AServerThatRepeatsThePasswordIsNotQuoted) {
    const FakeServer server([](const FakeServer& self, int client) {
        while (self.listen(client))
            FakeServer::say(client,
                            "-ERR unknown command 'AUTH', with args beginning with: 'bob' 'hunter2'\r\n");
    });
    RemoteCache cache(options_for(server.url("bob:hunter2@")));
    EXPECT_FALSE(cache.find(sample_.key).binary);
    EXPECT_THAT(cache.problem(), HasSubstr("password: ERR unknown command ;"));
    EXPECT_THAT(cache.problem(), Not(HasSubstr("hunter2")));
    // Nor when it repeats them later.
    const auto words = RedisSettings{parse_redis_url("redis://bob:hunter2@host"), {}, {}}.quote(
        "ERR args 'bob' 'hunter2'\r\n");
    EXPECT_EQ(words, "ERR args '***' '***'??");
}

TEST_F(RemoteExchange, UsersWithFewRightsAreServedAsFarAsTheyGo) {
    const RedisServer server;
    tell(server, {"ACL", "SETUSER", "kiln", "on", ">secret", "~kiln:*", "+@all"});
    tell(server, {"ACL", "SETUSER", "reader", "on", ">secret", "~kiln:*", "-@all", "+get"});
    tell(server, {"ACL", "SETUSER", "nobody", "on", ">secret", "~kiln:*", "-@all"});
    RemoteCache all(options_for(server.url("kiln:secret@")));
    EXPECT_TRUE(all.store(sample_.key.digest, sample_.entry)) << all.problem();
    EXPECT_TRUE(all.find(sample_.key).binary);

    RemoteCache reader(options_for(server.url("reader:secret@")));
    EXPECT_FALSE(reader.store(sample_.key.digest, sample_.entry));
    EXPECT_THAT(reader.problem(), HasSubstr("takes no entries: NOPERM"));
    EXPECT_TRUE(reader.find(sample_.key).binary) << "the right to read is not used";
    EXPECT_EQ(reader.try_lease(sample_.key.digest).right, RemoteCache::Right::unavailable);

    RemoteCache nobody(options_for(server.url("nobody:secret@")));
    EXPECT_FALSE(nobody.find(sample_.key).binary);
    EXPECT_THAT(nobody.problem(), HasSubstr("does not let entries be read: NOPERM"));
}

TEST_F(RemoteExchange, AFullServerIsStillReadFrom) {
    const RedisServer server;
    RemoteCache cache(options_for(server.url()));
    ASSERT_TRUE(cache.store(sample_.key.digest, sample_.entry));
    tell(server, {"CONFIG", "SET", "maxmemory", "1"});
    const auto second = make_sample("second");
    EXPECT_FALSE(cache.store(second.key.digest, second.entry));
    EXPECT_THAT(cache.problem(), HasSubstr("takes no entries: OOM"));
    EXPECT_TRUE(cache.find(sample_.key).binary);
    tell(server, {"CONFIG", "SET", "maxmemory", "0"});
    EXPECT_FALSE(cache.store(second.key.digest, second.entry)) << "it is asked again at once";
    EXPECT_EQ(cache.failures(), 1U);
}

TEST_F(RemoteExchange, OperatorsListFetchAndPut) {
    const RedisServer server;
    RemoteCache cache(options_for(server.url()));
    EXPECT_GT(cache.ping().count(), 0);
    EXPECT_THAT(cache.server_version(), testing::MatchesRegex("[0-9.]+"));
    std::set<std::string> stored;
    for (int i = 0; i < 2500; ++i) {
        const auto sample = make_sample(std::to_string(i), 1);
        cache.put(sample.key.digest, sample.entry);
        stored.insert(sample.key.digest);
    }
    tell(server,
         {"MSET", "kiln:1:entry:short", "x", "kiln:1:lease:" + sample_.key.digest, "x", "other", "x"});
    std::multiset<std::string> listed;
    cache.for_each([&](const std::string& digest) {
        listed.insert(digest);
        return true;
    });
    EXPECT_EQ(listed, std::multiset<std::string>(stored.begin(), stored.end()));
    int calls = 0;
    cache.for_each([&](const std::string&) { return ++calls < 3; });
    EXPECT_EQ(calls, 3);
    std::stop_source stop;
    stop.request_stop();
    calls = 0;
    cache.for_each([&](const std::string&) { return ++calls > 0; }, stop.get_token());
    EXPECT_LT(calls, 2000) << "one answer of several";

    std::string reason;
    EXPECT_TRUE(cache.fetch(sample_.key.digest, reason).empty());
    EXPECT_EQ(reason, "it is not there");
    EXPECT_FALSE(cache.contains(sample_.key.digest));
    cache.put(sample_.key.digest, sample_.entry);
    EXPECT_TRUE(cache.contains(sample_.key.digest));
    EXPECT_EQ(cache.fetch(sample_.key.digest, reason), sample_.entry);
    EXPECT_EQ(reason, "");
    tell(server, {"SET", entry_key(sample_), "rubbish"});
    EXPECT_TRUE(cache.fetch(sample_.key.digest, reason).empty());
    EXPECT_NE(reason, "");
}

TEST_F(RemoteExchange, ManyThreadsShareFewConnections) {
    const RedisServer server;
    RemoteCache cache(options_for(server.url()));
    std::atomic<int> hits{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 16; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 20; ++i) {
                const auto sample = make_sample(std::to_string(t) + "/" + std::to_string(i));
                if (cache.store(sample.key.digest, sample.entry) &&
                    cache.find(sample.key).entry == sample.entry)
                    ++hits;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(hits, 16 * 20) << cache.problem();
    const auto clients = tell(server, {"CLIENT", "LIST"});
    EXPECT_LE(std::count(clients.bytes.begin(), clients.bytes.end(), std::byte{'\n'}), 4 + 1);
}

TEST_F(RemoteExchange, AHitIsQuick) {
    const RedisServer server;
    RemoteCache cache(options_for(server.url()));
    const auto sample = make_sample("hit", 100 * 1024);
    ASSERT_TRUE(cache.store(sample.key.digest, sample.entry));
    std::vector<double> times;
    for (int i = 0; i < 101; ++i) {
        const Stopwatch watch;
        ASSERT_TRUE(cache.find(sample.key).binary) << cache.problem();
        times.push_back(watch.elapsed_us());
    }
    std::sort(times.begin(), times.end());
    std::printf("a hit of 100 KB: median %.0f us, fastest %.0f us\n", times[50], times[0]);
    // The fastest tenth: the rest says how busy the machine is.
    EXPECT_LT(times[10], 2000) << "microseconds";
}

}  // namespace
}  // namespace kiln::test
