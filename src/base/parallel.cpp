// SPDX-License-Identifier: Apache-2.0
//
// Threads take the next piece until there is none.
#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/blocked_signals.h"

namespace kiln {

void parallel_for(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& body) {
    const std::int64_t pieces = count / grain + (count % grain != 0);
    const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
    std::atomic<std::int64_t> next{0};
    std::exception_ptr failure;
    std::mutex failure_mutex;
    const auto work = [&] {
        try {
            for (std::int64_t piece; (piece = next.fetch_add(1)) < pieces;)
                body(piece * grain, std::min(count - piece * grain, grain) + piece * grain);
        } catch (...) {
            next = pieces;
            const std::lock_guard lock(failure_mutex);
            if (!failure) failure = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> helpers;
        try {
            const BlockedSignals block;
            for (std::int64_t i = 1; i < std::min(pieces, cores); ++i) helpers.emplace_back(work);
        } catch (const std::system_error&) {
            // Fewer threads do the same work.
        }
        work();
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace kiln
