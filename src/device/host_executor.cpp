// SPDX-License-Identifier: Apache-2.0
//
// Blocks are handed out in ascending order, in chunks, by an atomic counter: a block that waits in memory
// for a block before it does not wait for ever.
#include "device/host_executor.h"

#include <kiln/error.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "base/blocked_signals.h"
#include "base/no_cancel.h"
#include "format/format.h"

namespace kiln {

struct HostExecutor::Launch {
    const BlockPlan& plan;
    std::uint64_t blocks;
    std::uint64_t chunk;
    std::atomic<std::uint64_t> next{0};

    std::atomic<bool> has_failed{
        false};  // some block, or it is left out; others may wait for what it would have written
    std::mutex mutex;
    std::uint64_t failed_block = 0;
    std::string failure;  // of the first block of those that failed

    void fail(std::uint64_t block, std::string problem) {
        next = blocks;
        has_failed = true;
        const std::lock_guard lock(mutex);
        // Of a cooperative launch the first one: others fail because of it.
        if (!failure.empty() && (plan.barrier != nullptr || failed_block < block)) return;
        failed_block = block;
        failure = std::move(problem);
        if (plan.barrier != nullptr) plan.barrier->abort();
    }
    Dim3 index(std::uint64_t number) const {
        const auto& grid = plan.grid;
        return {static_cast<unsigned>(number % grid.x), static_cast<unsigned>(number / grid.x % grid.y),
                static_cast<unsigned>(number / grid.x / grid.y)};
    }
};

HostExecutor::~HostExecutor() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    work_there_.notify_all();
    for (auto& helper : helpers_) helper.join();
}

void HostExecutor::run(const BlockPlan& given, const std::string& kernel, ObservedLaunch* observed) {
    const NoCancel no_cancel;  // kernels run in this thread, too, on stacks of their own
    const std::lock_guard one_at_a_time(launch_mutex_);
    const std::uint64_t blocks = given.grid.count();
    GridBarrier barrier(blocks);
    BlockPlan plan = given;
    if (plan.cooperative) plan.barrier = &barrier;
    const std::uint64_t chunk =
        plan.cooperative ? 1 : std::clamp<std::uint64_t>(blocks / (workers_ * 16u), 1, 64);
    Launch launch{plan, blocks, chunk, {}, {}, {}, 0, {}};
    plan.has_failed = &launch.has_failed;
    if (plan.observer != nullptr) {
        start_helpers(0);
        observe(launch, blocks_.front(), *observed);
    } else {
        work_together(launch);
    }
    if (launch.failure.empty()) return;
    const Dim3 index = launch.index(launch.failed_block);
    throw DeviceError(formatted("Kernel {} failed on the host in block ({},{},{}): {}.", kernel, index.x,
                                index.y, index.z, launch.failure),
                      "launch");
}

void HostExecutor::work_together(Launch& launch) {
    const std::uint64_t chunks = (launch.blocks + launch.chunk - 1) / launch.chunk;
    const std::uint64_t wanted = launch.plan.cooperative ? chunks : std::min<std::uint64_t>(workers_, chunks);
    start_helpers(wanted - 1);
    const std::uint64_t helpers = std::min<std::uint64_t>(helpers_.size(), wanted - 1);
    if (launch.plan.cooperative && helpers != wanted - 1)
        return launch.fail(
            0, formatted(
                   "its {} blocks wait for each other, and only {} threads could be started to run them on",
                   wanted, helpers + 1));
    {
        const std::lock_guard lock(mutex_);
        launch_ = &launch;
        seats_ = helpers;
    }
    for (std::uint64_t i = 0; i < helpers; ++i) work_there_.notify_one();
    work(launch, blocks_.front());
    std::unique_lock lock(mutex_);
    seats_ = 0;
    work_done_.wait(lock, [this] { return working_ == 0; });
    launch_ = nullptr;
}

void HostExecutor::start_helpers(std::uint64_t wanted) {
    if (blocks_.empty()) blocks_.emplace_back();
    const BlockedSignals blocked;
    try {
        while (helpers_.size() < wanted) {
            if (blocks_.size() == helpers_.size() + 1) blocks_.emplace_back();
            helpers_.reserve(helpers_.size() + 1);
            helpers_.emplace_back([this, &block = blocks_.back()] { help(block); });
        }
    } catch (const std::exception&) {
        // Fewer threads do the same work.
    }
}

void HostExecutor::help(FiberBlock& block) {
    std::unique_lock lock(mutex_);
    for (;;) {
        work_there_.wait(lock, [this] { return stop_ || seats_ != 0; });
        if (stop_) return;
        --seats_;
        ++working_;
        Launch& launch = *launch_;
        lock.unlock();
        work(launch, block);
        lock.lock();
        if (--working_ == 0) work_done_.notify_all();
    }
}

void HostExecutor::work(Launch& launch, FiberBlock& block) {
    const KernelThread kernel_thread(block);
    std::uint64_t number = 0;
    try {
        block.prepare(launch.plan);
        for (;;) {
            number = launch.next.fetch_add(launch.chunk);
            const std::uint64_t end = std::min(number + launch.chunk, launch.blocks);
            for (; number < end; ++number) {
                std::string problem = block.run(launch.index(number));
                if (block.was_ended()) return;
                if (!problem.empty()) return launch.fail(number, std::move(problem));
                if (launch.plan.barrier != nullptr) launch.plan.barrier->leave();
            }
            if (number >= launch.blocks) return;
        }
    } catch (const std::exception& exception) {
        launch.fail(std::min(number, launch.blocks - 1), exception.what());
    }
}

void HostExecutor::observe(Launch& launch, FiberBlock& block, ObservedLaunch& observed) {
    const KernelThread kernel_thread(block);
    AccessObserver& observer = *launch.plan.observer;
    std::uint64_t number = 0;
    bool told = false;
    try {
        block.prepare(launch.plan);
        if (observed.dynamic_shared_bytes != 0)
            observed.dynamic_shared_address = block.dynamic_shared_address();
        observer.begin_launch(observed);
        told = true;
        for (; number < launch.blocks && launch.failure.empty(); ++number) {
            const Dim3 index = launch.index(number);
            if (!observer.begin_block(index)) {
                launch.has_failed = true;
                continue;
            }
            std::string problem = block.run(index);
            if (block.has_spun()) observer.waits_for_block();
            observer.end_block();
            if (!problem.empty() && !block.was_ended()) launch.fail(number, std::move(problem));
        }
    } catch (const std::exception& exception) {
        launch.fail(number, exception.what());
    }
    if (told) observer.end_launch();
}

}  // namespace kiln
