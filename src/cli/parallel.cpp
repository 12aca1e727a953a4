// SPDX-License-Identifier: Apache-2.0
//
// Threads that take the next piece until there is none.
#include "cli/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace kiln::cli {

void parallel_for(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& body) {
    std::atomic<std::int64_t> next{0};
    std::exception_ptr failure;
    std::mutex failure_mutex;
    const auto work = [&] {
        try {
            for (std::int64_t begin; (begin = next.fetch_add(grain)) < count;)
                body(begin, std::min(begin + grain, count));
        } catch (...) {
            next = count;
            const std::lock_guard lock(failure_mutex);
            if (!failure) failure = std::current_exception();
        }
    };
    const std::int64_t pieces = (count + grain - 1) / grain;
    const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
    {
        std::vector<std::jthread> helpers;
        for (std::int64_t i = 1; i < std::min(pieces, cores); ++i) helpers.emplace_back(work);
        work();
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace kiln::cli
