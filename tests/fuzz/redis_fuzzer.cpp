// SPDX-License-Identifier: Apache-2.0
//
// What a Redis server may say, whole and in pieces, and what a person may give as its URL.
#include <kiln/error.h>

#include <algorithm>

#include "cache/redis_reply.h"
#include "cache/redis_url.h"
#include "fuzz.h"

namespace {

using namespace kiln;

/// Feeds pieces of at most `step` bytes. False: rejected.
bool feed(std::span<const std::byte> bytes, std::size_t step) {
    RedisReader reader;
    try {
        while (!bytes.empty()) {
            const auto piece = bytes.first(std::min(step, bytes.size()));
            bytes = bytes.subspan(piece.size());
            if (const auto reply = reader.feed(piece)) (void)reply->error_code();
        }
    } catch (const RedisProtocolError&) {
        return false;
    }
    return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto bytes = fuzz::copy_of(data, size);
    feed(bytes, std::max<std::size_t>(1, size));
    feed(bytes, 1);
    feed(bytes, 7);
    const std::string_view text = fuzz::text_of(data, size);
    try {
        const RedisUrl url = parse_redis_url(text);
        KILN_FUZZ_CHECK(!url.host.empty() && url.port != 0 && url.database >= 0);
        // What is shown to people names the same server.
        const RedisUrl again = parse_redis_url(url.place());
        KILN_FUZZ_CHECK(again.host == url.host && again.port == url.port && again.database == url.database);
        KILN_FUZZ_CHECK(again.tls == url.tls && again.user.empty() && again.password.empty());
    } catch (const UsageError&) {
    }
    return 0;
}
