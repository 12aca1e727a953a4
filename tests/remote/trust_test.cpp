// SPDX-License-Identifier: Apache-2.0
//
// What lies on the server is not believed: damage and garbage are rejected with a reason, and with a signature
// key so is everything that was not signed with it.
#include <gmock/gmock.h>
#include <kiln/error.h>

#include "cache/remote_value.h"
#include "remote_support.h"

namespace kiln::test {
namespace {

using testing::HasSubstr;

class RemoteTrust : public testing::Test {
  protected:
    void SetUp() override {
        KILN_REQUIRE_REDIS();
        server_ = std::make_unique<RedisServer>();
        client_ = std::make_unique<RedisClient>(
            RedisSettings{parse_redis_url(server_->url()), {}, std::chrono::milliseconds(10000)});
    }
    void put(std::string_view value) {
        ASSERT_TRUE(client_->call({"SET", entry_key(sample_), value}).is_status("OK"));
    }
    std::unique_ptr<RemoteCache> with_key(const std::string& key) {
        auto options = options_for(server_->url());
        if (!key.empty()) {
            options.signature_key_file = directory_.path() / "key";
            write_text(options.signature_key_file, key);
        }
        return std::make_unique<RemoteCache>(options);
    }
    /// Why a look-up rejects what is there.
    std::string refusal(RemoteCache& cache) {
        const auto found = cache.find(sample_.key);
        EXPECT_FALSE(found.binary);
        EXPECT_TRUE(found.entry.empty());
        EXPECT_EQ(cache.problem(), "") << "the server is not to blame";
        return found.rejected;
    }

    const std::string key_ = "a key of more than 16 bytes";
    const Sample sample_ = make_sample("first");
    const TemporaryDirectory directory_;
    std::unique_ptr<RedisServer> server_;
    std::unique_ptr<RedisClient> client_;
};

TEST_F(RemoteTrust, GarbageIsRejected) {
    const auto cache = with_key("");
    for (const std::string& value : {std::string(), std::string("rubbish"), std::string(100000, '\0'),
                                     std::string("KILNSIG1"), "KILNSIG1" + std::string(32, 'x')}) {
        put(value);
        EXPECT_THAT(refusal(*cache), HasSubstr("is not used: ")) << value.size();
    }
    client_->call({"DEL", entry_key(sample_)});
    client_->call({"RPUSH", entry_key(sample_), "a", "list"});
    EXPECT_THAT(refusal(*cache), HasSubstr("it is no string"));
    std::string reason;
    EXPECT_TRUE(cache->fetch(sample_.key.digest, reason).empty());
    EXPECT_EQ(reason, "it is no string");
    // And replaced.
    EXPECT_TRUE(cache->store(sample_.key.digest, sample_.entry));
    EXPECT_TRUE(cache->find(sample_.key).binary);
}

TEST_F(RemoteTrust, EveryFlippedByteAndEveryTruncationIsRejected) {
    const auto plain = with_key("");
    const auto keyed = with_key(key_);
    for (RemoteCache* cache : {plain.get(), keyed.get()}) {
        ASSERT_TRUE(cache->store(sample_.key.digest, sample_.entry));
        const auto stored = client_->call({"GET", entry_key(sample_)});
        const std::string good(stored.text());
        for (std::size_t i = 0; i < good.size(); ++i) {
            std::string bad = good;
            bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
            put(bad);
            ASSERT_NE(refusal(*cache), "") << "byte " << i;
            put(std::string_view(good).substr(0, i));
            ASSERT_NE(refusal(*cache), "") << "cut to " << i;
        }
        put(good);
        EXPECT_TRUE(cache->find(sample_.key).binary);
    }
}

TEST_F(RemoteTrust, AnotherEntrysBytesAreRejected) {
    const auto second = make_sample("second");
    const auto plain = with_key("");
    put(view(second.entry));
    EXPECT_NE(refusal(*plain), "");
    const auto keyed = with_key(key_);
    ASSERT_TRUE(keyed->store(second.key.digest, second.entry));
    put(client_->call({"GET", entry_key(second)}).text());
    EXPECT_THAT(refusal(*keyed), HasSubstr("its signature is wrong"));
}

TEST_F(RemoteTrust, WithAKeyOnlyItsOwnSignatureCounts) {
    const auto keyed = with_key(key_);
    put(view(sample_.entry));
    EXPECT_THAT(refusal(*keyed), HasSubstr("it is not signed"));
    ASSERT_TRUE(with_key("another key of that size")->store(sample_.key.digest, sample_.entry));
    EXPECT_THAT(refusal(*keyed), HasSubstr("its signature is wrong"));
    std::string reason;
    EXPECT_TRUE(keyed->fetch(sample_.key.digest, reason).empty());
    EXPECT_EQ(reason, "its signature is wrong");

    ASSERT_TRUE(keyed->store(sample_.key.digest, sample_.entry));
    const auto value = client_->call({"GET", entry_key(sample_)});
    EXPECT_EQ(value.text().substr(0, 8), "KILNSIG1");
    EXPECT_EQ(value.text().substr(40), view(sample_.entry));
    EXPECT_EQ(keyed->find(sample_.key).entry, sample_.entry);
    EXPECT_EQ(with_key(key_)->find(sample_.key).entry, sample_.entry);
    // One without a key can't check the signature, and has the checksum.
    EXPECT_EQ(with_key("")->find(sample_.key).entry, sample_.entry);
}

TEST(RemoteSignature, IsHmacSha256OfDigestAndEntry) {
    // Made by: printf abc | openssl dgst -sha256 -mac HMAC -macopt key:0123456789abcdef
    const std::string key = "0123456789abcdef";
    const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
    const SignatureKey secret(bytes(key).begin(), bytes(key).end());
    const auto head = signature_head(secret, "a", bytes("bc"));
    ASSERT_EQ(head.size(), 40U);
    std::string hex;
    for (std::size_t i = 8; i < head.size(); ++i) {
        char digits[3];
        std::snprintf(digits, sizeof(digits), "%02x", std::to_integer<unsigned>(head[i]));
        hex += digits;
    }
    EXPECT_EQ(hex, "bcaa92843247bc258080d2824bddeba4afb1bd61b4688ca65f60a214e1d9759e");
}

TEST(RedisReplies, AreReadInPiecesAndBounded) {
    const auto feed = [](std::string_view text, std::size_t piece) {
        RedisReader reader;
        std::optional<RedisReply> reply;
        const auto all = std::as_bytes(std::span(text));
        for (std::size_t i = 0; i < all.size() && !reply; i += piece)
            reply = reader.feed(all.subspan(i, std::min(piece, all.size() - i)));
        return reply;
    };
    constexpr std::string_view kScan = "*2\r\n$2\r\n17\r\n*2\r\n$1\r\na\r\n$-1\r\n";
    for (const std::size_t piece : {1U, 2U, 5U, 1000U}) {
        const auto scan = feed(kScan, piece);
        ASSERT_TRUE(scan && scan->elements.size() == 2 && scan->elements[1].elements.size() == 2);
        EXPECT_EQ(scan->elements[0].text(), "17");
        EXPECT_EQ(scan->elements[1].elements[1].kind, RedisReply::Kind::nil);
    }
    EXPECT_EQ(feed(":42\r\n", 1)->integer, 42);
    EXPECT_EQ(feed("-OOM no room\r\n", 1)->error_code(), "OOM");
    for (const char* wrong : {"hello\r\n", "*65537\r\n", "*60000\r\n*60000\r\n", "*2147483647\r\n",
                              "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "$x\r\n", "+OK\r\n+OK\r\n",
                              "%1\r\n+a\r\n+b\r\n", "#t\r\n", ",1.5\r\n", "$-7\r\n"})
        EXPECT_THROW(feed(wrong, 1000), RedisProtocolError) << wrong;
    EXPECT_FALSE(feed("$10737418240\r\nabc", 1000)) << "not yet";
}

}  // namespace
}  // namespace kiln::test
