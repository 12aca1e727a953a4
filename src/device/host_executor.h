// SPDX-License-Identifier: Apache-2.0
//
// HostExecutor hands the blocks of a launch to OS threads: the calling one and a pool that is started by
// the first launch that can use it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/driver.h"
#include "device/fiber_block.h"

namespace kiln {

/// Of a cooperative launch, each on an OS thread of its own, with a stack for each of its threads.
constexpr std::uint64_t kMostCooperativeBlocks = 128;

/// Thread-safe. Launches from several threads run one after the other, each on all workers.
class HostExecutor {
  public:
    explicit HostExecutor(unsigned workers) : workers_(workers) {}
    HostExecutor(const HostExecutor&) = delete;
    HostExecutor& operator=(const HostExecutor&) = delete;
    ~HostExecutor();

    /// Runs every block and returns. With an observer the calling thread does it, one block after the other;
    /// `observed` is what the observer is told, but for the address of the dynamic shared memory. Throws DeviceError when a block fails: a trap, a deadlock, an
    /// exception; blocks that had not begun then never run.
    void run(const BlockPlan& given, const std::string& kernel, ObservedLaunch* observed = nullptr);
    /// Held, only the calling thread launches.
    Driver::LaunchLock lock_launches() { return Driver::LaunchLock(launch_mutex_); }

  private:
    struct Launch;

    void work_together(Launch& launch);
    void start_helpers(std::uint64_t wanted);
    void help(FiberBlock& block);
    static void work(Launch& launch, FiberBlock& block);
    static void observe(Launch& launch, FiberBlock& block, ObservedLaunch& observed);

    const unsigned workers_;
    std::recursive_mutex launch_mutex_;  // held during a launch
    std::deque<FiberBlock> blocks_;      // one per OS thread; the first is the caller's
    std::vector<std::thread> helpers_;

    std::mutex mutex_;
    std::condition_variable work_there_;
    std::condition_variable work_done_;
    Launch* launch_ = nullptr;
    std::uint64_t seats_ = 0;  // how many more helpers may join the launch
    unsigned working_ = 0;     // helpers in it
    bool stop_ = false;
};

}  // namespace kiln
