// SPDX-License-Identifier: Apache-2.0
//
// Boost.Asio's thread pool, started late and with the program's signals blocked.
#include "service/background.h"

#include <signal.h>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <mutex>
#include <optional>
#include <utility>

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
    std::optional<boost::asio::thread_pool> threads;
};

Background::Background(int threads) : threads_(threads), pool_(std::make_unique<Pool>()) {}

Background::~Background() { finish(); }

void Background::finish() {
    const std::lock_guard lock(pool_->mutex);
    if (pool_->threads) pool_->threads->join();
}

void Background::post(std::function<void()> task) {
    const std::lock_guard lock(pool_->mutex);
    if (!pool_->threads) {
        const AllSignalsBlocked blocked;
        pool_->threads.emplace(static_cast<std::size_t>(threads_));
    }
    boost::asio::post(*pool_->threads, std::move(task));
}

}  // namespace kiln
