// SPDX-License-Identifier: Apache-2.0
//
// A Redis server's URL: redis://[[USER][:PASSWORD]@]HOST[:PORT][/DATABASE], with rediss:// for TLS.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln {

struct RedisUrl {
    bool tls = false;
    std::string user;      ///< decoded; empty: the server's default user
    std::string password;  ///< decoded; empty: none
    std::string host;      ///< a name, or an address without brackets
    std::uint16_t port = 6379;
    int database = 0;

    /// "redis://cache.example:6379/0": without user and password.
    std::string place() const;
};

/// Throws UsageError. Messages repeat only what can't be a part of a password.
RedisUrl parse_redis_url(std::string_view text);

}  // namespace kiln
