// SPDX-License-Identifier: Apache-2.0
//
// Boost.Asio's queue, worked off by threads that start late, with the program's signals blocked, and that are
// as many as can be had (asio::thread_pool waits for ever where one of several can't be started).
#include "service/background.h"

#include <signal.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace kiln {
namespace {

// Signals belong to the program's own threads.
class AllSignalsBlocked {
  public:
    AllSignalsBlocked() {
        sigset_t all;
        sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    AllSignalsBlocked(const AllSignalsBlocked&) = delete;
    AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

  private:
    sigset_t before_;
};

}  // namespace

struct Background::Pool {
    std::mutex mutex;
    boost::asio::io_context tasks;
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> open{tasks.get_executor()};
    std::vector<std::thread> threads;

    void start(int count) {
        const AllSignalsBlocked blocked;
        threads.reserve(static_cast<std::size_t>(count));
        try {
            while (threads.size() < static_cast<std::size_t>(count))
                threads.emplace_back([this] { tasks.run(); });
        } catch (const std::system_error&) {
            // The limit of threads or processes: fewer do as well.
        }
    }
};

Background::Background(int threads) : threads_(threads), pool_(std::make_unique<Pool>()) {}

Background::~Background() { finish(); }

void Background::finish() {
    const std::lock_guard lock(pool_->mutex);
    pool_->open.reset();
    for (auto& thread : pool_->threads) thread.join();
    pool_->threads.clear();
}

void Background::post(std::function<void()> task) {
    {
        const std::lock_guard lock(pool_->mutex);
        if (pool_->threads.empty()) pool_->start(threads_);
        if (!pool_->threads.empty()) return boost::asio::post(pool_->tasks, std::move(task));
    }
    task();
}

}  // namespace kiln
