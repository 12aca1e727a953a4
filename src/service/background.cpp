// SPDX-License-Identifier: Apache-2.0
//
// Boost.Asio's queue, worked off by threads that start late, with the program's signals blocked, and that are
// as many as can be had (asio::thread_pool waits for ever where one of several can't be started).
#include "service/background.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/blocked_signals.h"

namespace kiln {
namespace {

thread_local bool is_of_a_pool = false;

}  // namespace

struct Background::Pool {
    std::mutex mutex;
    boost::asio::io_context tasks;
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> open{tasks.get_executor()};
    std::vector<std::thread> threads;
    bool is_finished = false;  ///< no more threads are started

    void start(int count) {
        const BlockedSignals blocked;
        threads.reserve(static_cast<std::size_t>(count));
        try {
            while (threads.size() < static_cast<std::size_t>(count))
                threads.emplace_back([this] {
                    is_of_a_pool = true;
                    tasks.run();
                });
        } catch (const std::system_error&) {
            // The limit of threads or processes: fewer do as well.
        }
    }
};

Background::Background(int threads) : threads_(threads), pool_(std::make_unique<Pool>()) {}

Background::~Background() { finish(); }

void Background::finish() {
    std::vector<std::thread> threads;
    {
        const std::lock_guard lock(pool_->mutex);
        pool_->is_finished = true;
        pool_->open.reset();
        threads.swap(pool_->threads);
    }
    for (auto& thread : threads) thread.join();  // without the lock: a task may post another one
}

void Background::post(std::function<void()> task) {
    {
        const std::lock_guard lock(pool_->mutex);
        if (pool_->threads.empty() && !pool_->is_finished) pool_->start(threads_);
        // The thread of a task that posts one goes on until nothing is left.
        if (!pool_->threads.empty() || pool_->tasks.get_executor().running_in_this_thread())
            return boost::asio::post(pool_->tasks, std::move(task));
    }
    task();
}

bool Background::is_in_task() { return is_of_a_pool; }

}  // namespace kiln
