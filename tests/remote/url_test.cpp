// SPDX-License-Identifier: Apache-2.0
//
// URLs of Redis servers, the options around them, and that no message repeats what is secret.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include "base/file.h"
#include "cache/redis_tls.h"
#include "cache/redis_url.h"
#include "cache/remote_cache.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string refusal(const std::function<void()>& call) {
    try {
        call();
    } catch (const UsageError& error) {
        return error.what();
    }
    ADD_FAILURE() << "nothing was rejected";
    return {};
}

TEST(RedisUrl, AllPartsAreRead) {
    const auto url = parse_redis_url("rediss://kiln:p%40ss%2fw%3Ard@cache.example:7000/12");
    EXPECT_TRUE(url.tls);
    EXPECT_EQ(url.user, "kiln");
    EXPECT_EQ(url.password, "p@ss/w:rd");
    EXPECT_EQ(url.host, "cache.example");
    EXPECT_EQ(url.port, 7000);
    EXPECT_EQ(url.database, 12);
    EXPECT_EQ(url.place(), "rediss://cache.example:7000/12");
}

TEST(RedisUrl, PartsMayBeLeftOut) {
    const auto plain = parse_redis_url("redis://cache");
    EXPECT_FALSE(plain.tls);
    EXPECT_EQ(plain.place(), "redis://cache:6379/0");
    EXPECT_EQ(plain.user + plain.password, "");
    EXPECT_EQ(parse_redis_url("redis://cache/").place(), "redis://cache:6379/0");
    EXPECT_EQ(parse_redis_url("redis://:secret@cache").password, "secret");
    EXPECT_EQ(parse_redis_url("redis://kiln@cache").user, "kiln");
    const auto six = parse_redis_url("redis://[::1]:7000/1");
    EXPECT_EQ(six.host, "::1");
    EXPECT_EQ(six.place(), "redis://[::1]:7000/1");
}

TEST(RedisUrl, WrongOnesAreRejectedWithoutTheSecret) {
    for (const char* text : {"",
                             "hunter2",
                             "http://:hunter2@host",
                             "redis://",
                             "redis://:hunter2@",
                             "redis://:hunter2",
                             "redis://a:hunter2",
                             "redis://:hunter2/x@host",
                             "redis://:hunter2%@host",
                             "redis://:hunter2%2@host",
                             "redis://:hunter2%zz@host",
                             "redis://:hunter2@host:0",
                             "redis://:hunter2@host:65536",
                             "redis://:hunter2@host:6379x",
                             "redis://:hunter2@host:6379/x",
                             "redis://:hunter2@host/-1",
                             "redis://:hunter2@host/99999999",
                             "redis://:hunter2@[::1",
                             "redis://:hunter2@ho st",
                             "redis://:hunter2@host/0?x=1",
                             "redis://:@host",
                             "redis://:hun@hunter2@ho$t",
                             "redis://hunter2 @"}) {
        const auto message = refusal([&] { parse_redis_url(text); });
        EXPECT_THAT(message, HasSubstr("redis://[[USER]:PASSWORD@]HOST")) << text;
        EXPECT_THAT(message, Not(HasSubstr("hunter2"))) << text;
    }
    EXPECT_THAT(refusal([] { parse_redis_url("redis://host:99999"); }), HasSubstr(": 99999"));
}

TEST(RedisUrl, AnUnencodedPasswordOfDigitsIsNoPort) {
    for (const char* text :
         {"redis://user:98765/secret@host", "redis://user:98765432/secret@host", "redis://user:98765432"})
        EXPECT_THAT(refusal([&] { parse_redis_url(text); }), Not(HasSubstr("98765"))) << text;
    EXPECT_THAT(refusal([] { parse_redis_url("redis://user:1/2@host"); }), HasSubstr("%2F"));
}

class RemoteOptionsTest : public testing::Test {
  protected:
    RemoteOptions with(const std::string& url) {
        RemoteOptions options;
        options.url = url;
        return options;
    }
    std::filesystem::path file(const std::string& content) {
        const auto path = directory_.path() / "file";
        write_text(path, content);
        return path;
    }
    static std::string refused(const RemoteOptions& options) {
        return refusal([&] { RemoteCache cache(options); });
    }
    TemporaryDirectory directory_;
};

TEST_F(RemoteOptionsTest, WhatDoesNotFitIsRejected) {
    auto options = with("redis://:hunter2@host");
    options.password_file = file("hunter3\n");
    EXPECT_THAT(refused(options), testing::AllOf(HasSubstr("give one of them"), Not(HasSubstr("hunter"))));

    options = with("redis://kiln@host");
    EXPECT_THAT(refused(options), HasSubstr("user without a password"));
    options.password_file = file("\nsecond");
    EXPECT_THAT(refused(options), HasSubstr("empty first line"));
    options.password_file = directory_.path() / "none";
    EXPECT_THAT(refused(options), HasSubstr("does not exist"));
    options.password_file = directory_.path();
    EXPECT_THAT(refused(options), HasSubstr("can't be read"));

    options = with("redis://host");
    options.signature_key_file = file("hunter2");
    EXPECT_THAT(refused(options), testing::AllOf(HasSubstr("7 bytes"), Not(HasSubstr("hunter"))));
    options = with("redis://host");
    options.timeout = std::chrono::milliseconds(0);
    EXPECT_THAT(refused(options), HasSubstr("1 to 60000 ms"));
    options = with("redis://host");
    options.ca_file = file("-----BEGIN CERTIFICATE-----");
    EXPECT_THAT(refused(options), HasSubstr("rediss://"));
}

TEST_F(RemoteOptionsTest, TlsNeedsABuildWithIt) {
    auto options = with("rediss://host");
    if (!tls_available()) {
        EXPECT_THAT(refused(options), HasSubstr("KILN_TLS=OFF"));
        return;
    }
    options.ca_file = file("no certificate");
    EXPECT_THAT(refused(options), HasSubstr("holds no certificate"));
    options.ca_file.clear();
    EXPECT_EQ(RemoteCache(options).place(), "rediss://host:6379/0");
}

}  // namespace
}  // namespace kiln
