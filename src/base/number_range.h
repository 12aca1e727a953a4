// SPDX-License-Identifier: Apache-2.0
//
// Numbers of the public API's options that have a range.
#pragma once

#include <kiln/error.h>

#include <cstdint>
#include <string_view>

#include "format/format.h"

namespace kiln {

/// Throws UsageError for a number out of the range: "RunOptions::iterations must be an integer from 1 to 1000000; 0 is too small,
/// the nearest is 1."
inline void check_range(std::string_view what, std::int64_t number, std::int64_t least, std::int64_t most) {
    if (number < least || number > most)
        throw UsageError(formatted("{} must be an integer from {} to {}; {} is too {}, the nearest is {}.",
                                   what, least, most, number, number < least ? "small" : "large",
                                   number < least ? least : most));
}

/// Throws UsageError unless it is one of the shards.
inline void check_shard(std::uint64_t shard, std::uint64_t shards) {
    if (shards == 0 || shard >= shards)
        throw UsageError(formatted("shard {} of {} does not exist: shards count from 0.", shard, shards));
}

}  // namespace kiln
