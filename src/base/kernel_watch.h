// SPDX-License-Identifier: Apache-2.0
//
// Reports failures of host kernels from a signal handler. A process that only runs kernels may watch them: when
// a fault, abort() or exit() ends it, the handler writes the signal, the address, the block and thread, and the
// call stack into memory that is shared with the parent. KernelThread records what a thread runs, whether it is
// watched or not.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/kernel_file.h"

namespace kiln {

/// The position of an OS thread in a kernel.
struct KernelFacts {
    const char* kernel = "";
    bool is_loading = false;  ///< its library is being loaded; the other members are not set then
    unsigned block[3] = {}, thread[3] = {};
    const std::byte* stack = nullptr;  ///< the lowest byte of the thread's stack; below it is a guard page
    std::size_t stack_bytes = 0;
    const std::byte* shared = nullptr;  ///< dynamic shared memory
    std::size_t shared_bytes = 0;
    std::size_t shared_guard = 0;  ///< the size of the guards before and after it
};

/// Runs kernels on an OS thread and knows its position.
class KernelRunner {
  public:
    /// False: no kernel runs now. Called by a signal handler on the same thread: it only reads.
    virtual bool where(KernelFacts& facts) const noexcept = 0;

  protected:
    ~KernelRunner() = default;
};

/// During its lifetime, this OS thread runs kernels.
class KernelThread {
  public:
    explicit KernelThread(const KernelRunner& runner);
    ~KernelThread();
    KernelThread(const KernelThread&) = delete;
    KernelThread& operator=(const KernelThread&) = delete;

  private:
    const KernelRunner* before_;
};

/// What a handler records. Plain data, in memory that two processes share.
struct KernelReport {
    enum class What : int { nothing, signal, exit, asked };
    static constexpr int kMostCalls = 48, kMostObjects = 4;

    std::atomic<int> state{0};  ///< 0: empty, 1: being written, 2: complete
    What what = What::nothing;
    int signal = 0;
    int code = 0;            ///< si_code
    bool was_sent = false;   ///< by raise(), kill() and the like, rather than by an instruction that failed
    bool by_itself = false;  ///< and the process sent it itself
    std::uint64_t address = 0;
    bool is_write = false;  ///< where is_access_known
    bool is_access_known = false;

    bool in_kernel = false;  ///< and then:
    char kernel[80] = {};
    bool is_loading = false;
    unsigned block[3] = {}, thread[3] = {};
    bool on_guard_of_stack = false;
    std::size_t stack_bytes = 0;
    bool near_shared = false;        ///< the address lies in its guards
    std::int64_t shared_offset = 0;  ///< of the address
    std::size_t shared_bytes = 0;
    int calls = 0;
    /// Return addresses, the innermost first.
    std::uint64_t call[kMostCalls] = {};
    /// The object of each address; 0: none.
    unsigned char object_of[kMostCalls] = {};
    /// Libraries that were loaded from memory, as kernels are: number 1 and so on.
    struct Object {
        std::uint64_t begin = 0;
        char name[kMostKernelName + 1] = {};  ///< KernelFile::name
    };
    Object object[kMostObjects] = {};
};

/// Memory of the launch, to name what an invalid address is near to.
struct WatchedMemory {
    char name[48] = {};
    std::uint64_t begin = 0, bytes = 0, element_bytes = 1;
};

/// What a watched process shares with its parent.
struct KernelWatch {
    static constexpr int kMostThreads = 64, kMostMemories = 32;

    /// When the first kernel began, as nanoseconds of std::chrono::steady_clock, which all processes share; 0: none has.
    std::atomic<std::int64_t> begin_ns{0};
    KernelReport end;                 ///< what ended it
    KernelReport seen[kMostThreads];  ///< what each thread did when it was signalled
    std::atomic<int> thread_count{0};
    std::atomic<int> threads[kMostThreads];  ///< their numbers in the system
    std::atomic<int> memory_count{0};
    WatchedMemory memories[kMostMemories];
};

/// Permanently, in this process: faults, abort() and exit() of kernels are recorded in `watch`, and kWatchSignal
/// makes every thread that runs a kernel record its position. For a process that runs only kernels from now on.
/// watch must stay valid.
void watch_kernels(KernelWatch& watch);
/// Clears the list of memories / adds one. No effect if the process is not watched.
void forget_watched_memories();
void watch_memory(const char* name, const void* begin, std::size_t bytes, std::size_t element_bytes);

extern const int kWatchSignal;

}  // namespace kiln
