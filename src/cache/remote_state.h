// SPDX-License-Identifier: Apache-2.0
//
// What RemoteCache and its leases share.
#pragma once

#include <string>

#include "cache/redis_client.h"
#include "cache/remote_cache.h"
#include "cache/remote_value.h"

namespace kiln {

struct RemoteCache::State {
    State(RedisSettings settings, SignatureKey signature_key, bool reads_only)
        : client(std::move(settings)),
          place(client.settings().url.place()),
          key(std::move(signature_key)),
          read_only(reads_only) {}

    RedisClient client;
    const std::string place;
    const SignatureKey key;
    const bool read_only;
};

}  // namespace kiln
