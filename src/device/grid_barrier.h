// SPDX-License-Identifier: Apache-2.0
//
// GridBarrier: where the blocks of a cooperative launch on the host wait for each other, one OS thread each.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace kiln {

class GridBarrier {
  public:
    explicit GridBarrier(std::uint64_t blocks) : blocks_(blocks) {}

    /// Waits until all blocks are here. false: they will never be, since one has ended or failed.
    bool arrive_and_wait() {
        std::unique_lock lock(mutex_);
        if (++arrived_ == blocks_) {
            arrived_ = 0;
            ++phase_;
            changed_.notify_all();
            return true;
        }
        const std::uint64_t phase = phase_;
        break_if_stuck();
        changed_.wait(lock, [&] { return phase_ != phase || is_broken_; });
        return phase_ != phase;
    }
    /// A block has run to its end.
    void leave() {
        const std::lock_guard lock(mutex_);
        ++ended_;
        break_if_stuck();
    }
    /// A block has failed.
    void abort() {
        const std::lock_guard lock(mutex_);
        is_broken_ = true;
        changed_.notify_all();
    }

  private:
    void break_if_stuck() {
        if (ended_ == 0 || arrived_ == 0 || arrived_ + ended_ < blocks_) return;
        is_broken_ = true;
        changed_.notify_all();
    }

    const std::uint64_t blocks_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t arrived_ = 0;  // in this phase
    std::uint64_t ended_ = 0;
    std::uint64_t phase_ = 0;
    bool is_broken_ = false;
};

}  // namespace kiln
