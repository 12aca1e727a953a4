// SPDX-License-Identifier: Apache-2.0
//
// A loop on all cores.
#pragma once

#include <cstdint>
#include <functional>

namespace kiln {

/// Calls body(begin, end) on disjoint pieces of at most `grain` that together are [0, count), from several
/// threads, and waits for them. Rethrows the first exception of a body; later pieces are skipped. If no
/// thread can be started, the others do the work.
void parallel_for(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace kiln
