// SPDX-License-Identifier: Apache-2.0
//
// Cache: push and pull, against a real Redis server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "admin_support.h"
#include "cache/remote_cache.h"
#include "redis_server.h"
#include "rejected.h"

namespace kiln {
namespace {

namespace admin = test::admin;

using test::rejected;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct AdminRemote : admin::AdminFixture {
    CacheOptions options_at(const std::string& name, const test::RedisServer& server) {
        auto result = options(name);
        result.remote->url = server.url();
        result.remote->timeout = std::chrono::seconds(10);
        return result;
    }
};

TEST_F(AdminRemote, WhatOnePushesAnotherPulls) {
    KILN_REQUIRE_REDIS();
    const test::RedisServer server;
    fill(1, 30);
    Cache here(options_at("cache", server)), there(options_at("other", server));
    std::vector<std::uint64_t> done;
    const CacheProgress progress = [&](std::uint64_t so_far, std::uint64_t total) {
        EXPECT_EQ(total, 30u);
        done.push_back(so_far);
    };
    const auto sent = here.push(progress);
    EXPECT_EQ(sent.entries, 30u);
    EXPECT_EQ(sent.bytes, here.usage().bytes);
    EXPECT_THAT(sent.refused, IsEmpty());
    ASSERT_EQ(done.size(), 30u);
    EXPECT_EQ(done.front(), 1u);
    EXPECT_EQ(done.back(), 30u);
    EXPECT_EQ(here.push().already_there, 30u);

    done.clear();
    const auto fetched = there.pull(progress);
    EXPECT_EQ(fetched.entries, 30u);
    EXPECT_EQ(fetched.bytes, sent.bytes);
    EXPECT_EQ(done.size(), 30u);
    EXPECT_EQ(there.verify().sound, 30u);
    const auto again = there.pull();
    EXPECT_EQ(again.entries, 0u);
    EXPECT_EQ(again.already_there, 30u);
}

TEST_F(AdminRemote, DamageGoesNeitherOutNorIn) {
    KILN_REQUIRE_REDIS();
    const test::RedisServer server;
    const auto keys = fill(1, 3);
    const auto damaged = disk().entry_path(keys[0].digest);
    admin::change_byte(damaged, 600);
    Cache here(options_at("cache", server));
    const auto sent = here.push();
    EXPECT_EQ(sent.entries, 2u);
    EXPECT_THAT(sent.refused, ElementsAre(HasSubstr(damaged.string())));

    RemoteCache remote(*options_at("cache", server).remote);
    std::string reason;
    EXPECT_TRUE(remote.fetch(keys[0].digest, reason).empty()) << "damage was sent";
    // Another's entry under this digest.
    remote.put(keys[1].digest, admin::entry_of(keys[2], 3));
    Cache there(options_at("other", server));
    const auto fetched = there.pull();
    EXPECT_EQ(fetched.entries, 1u);
    EXPECT_THAT(fetched.refused, ElementsAre(testing::AllOf(HasSubstr(keys[1].digest.substr(0, 12)),
                                                            HasSubstr(remote.place()))));
    EXPECT_EQ(there.verify().sound, 1u);
}

TEST_F(AdminRemote, AStopRequestEndsTheExchangeAndWhatWasExchangedStays) {
    KILN_REQUIRE_REDIS();
    const test::RedisServer server;
    const auto keys = fill(1, 10);
    Cache here(options_at("cache", server)), there(options_at("other", server));
    std::stop_source stop;
    const auto stop_after = [&](std::uint64_t count) {
        return [&stop, count](std::uint64_t done, std::uint64_t) {
            if (done == count) stop.request_stop();
        };
    };
    EXPECT_EQ(here.push(stop_after(4), stop.get_token()).entries, 4u);
    RemoteCache remote(*options_at("cache", server).remote);
    for (std::size_t i = 0; i < keys.size(); ++i)
        EXPECT_EQ(remote.contains(keys[i].digest), i < 4) << "not the most recently used first: " << i;
    here.push();
    stop = std::stop_source();
    EXPECT_EQ(there.pull(stop_after(6), stop.get_token()).entries, 6u);
    EXPECT_EQ(there.verify().sound, 6u);
    EXPECT_EQ(there.pull({}, stop.get_token()).entries, 0u);
}

TEST_F(AdminRemote, PullingStopsWhereTheCacheIsFull) {
    KILN_REQUIRE_REDIS();
    const test::RedisServer server;
    const auto keys = fill(1, 10);
    Cache(options_at("cache", server)).push();
    auto small = options_at("small", server);
    small.limit_bytes = admin::entry_of(keys[0], 1).size() * 4 + 100;
    Cache cache(small);
    const auto fetched = cache.pull();
    EXPECT_EQ(fetched.entries, 4u);
    EXPECT_THAT(fetched.refused, ElementsAre(HasSubstr("the last 6 entries")));
    EXPECT_EQ(cache.usage().entries, 4u);
    EXPECT_LE(cache.usage().bytes, *small.limit_bytes);
}

TEST_F(AdminRemote, WithoutAUsableRemoteTheReasonIsGiven) {
    fill(1, 1);
    Cache alone(options());
    EXPECT_THAT(rejected<CacheError>([&] { alone.push(); }), HasSubstr("KILN_REMOTE"));
    EXPECT_THAT(rejected<CacheError>([&] { alone.pull(); }), HasSubstr("KILN_REMOTE"));

    auto dead = options();
    dead.remote->url = "redis://127.0.0.1:" + std::to_string(test::free_port());
    EXPECT_THAT(rejected<CacheError>([&] { Cache(dead).push(); }), HasSubstr("127.0.0.1"));
    EXPECT_THAT(rejected<CacheError>([&] { Cache(dead).pull(); }), HasSubstr("127.0.0.1"));
    dead.remote->read_only = true;
    EXPECT_THAT(rejected<CacheError>([&] { Cache(dead).push(); }), HasSubstr("read only"));
}

}  // namespace
}  // namespace kiln
