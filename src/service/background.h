// SPDX-License-Identifier: Apache-2.0
//
// Background: a few threads that process a queue of background builds.
#pragma once

#include <functional>
#include <memory>

namespace kiln {

/// Thread-safe. Its threads start with the first task.
class Background {
  public:
    explicit Background(int threads);
    ~Background();

    /// Waits until every task has ended, and those that tasks post meanwhile; others may not come after that.
    void finish();

    /// The task must not throw. Where no thread can be started, it is done here and now.
    void post(std::function<void()> task);
    /// Whether the caller is a task of any of these: one that waits for another task may wait for ever.
    static bool is_in_task();

  private:
    struct Pool;

    const int threads_;
    std::unique_ptr<Pool> pool_;
};

}  // namespace kiln
