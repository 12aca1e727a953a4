// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the host backend as seen from a signal handler. A process that runs nothing but kernels may
// watch them: what ends it (a fault, abort(), exit()) is written into memory that it shares with its parent: the
// signal, the address, the block and thread, and the calls that led there. KernelThread records what a
// thread runs, whether it is watched or not.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kiln {

/// Where an OS thread is in a kernel.
struct KernelFacts {
    const char* kernel = "";
    bool is_loading = false;  ///< its library, whose constructors run; the rest means nothing then
    unsigned block[3] = {}, thread[3] = {};
    const std::byte* stack = nullptr;  ///< the lowest byte of the thread's stack; below it is a guard page
    std::size_t stack_bytes = 0;
    const std::byte* shared = nullptr;  ///< dynamic shared memory
    std::size_t shared_bytes = 0;
    std::size_t shared_guard = 0;  ///< how far before and behind it nothing else lies
};

/// Who runs kernels on an OS thread and can say where it is.
class KernelRunner {
  public:
    /// False: no kernel runs now. Called by a signal handler on the same thread: it only reads.
    virtual bool where(KernelFacts& facts) const noexcept = 0;

  protected:
    ~KernelRunner() = default;
};

/// While it lives, this OS thread runs kernels.
class KernelThread {
  public:
    explicit KernelThread(const KernelRunner& runner);
    ~KernelThread();
    KernelThread(const KernelThread&) = delete;
    KernelThread& operator=(const KernelThread&) = delete;

  private:
    const KernelRunner* before_;
};

/// What a handler writes down. Plain data: it lies in memory that two processes share.
struct KernelReport {
    enum class What : int { nothing, signal, exit, asked };
    static constexpr int kMostCalls = 48, kMostObjects = 4;

    std::atomic<int> state{0};  ///< 0: empty, 1: being written, 2: complete
    What what = What::nothing;
    int signal = 0;
    int code = 0;  ///< si_code
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
    /// Addresses behind the instruction or the call, the innermost first.
    std::uint64_t call[kMostCalls] = {};
    /// Which of the objects each lies in; 0: none of them.
    unsigned char object_of[kMostCalls] = {};
    /// Libraries that were loaded from memory, as kernels are: number 1 and so on.
    struct Object {
        std::uint64_t begin = 0;
        char name[32] = {};  ///< "/proc/self/fd/7"; 7 is the same file in the process that loaded nothing
    };
    Object object[kMostObjects] = {};
};

/// Memory of the launch that a wild address may lie near.
struct WatchedMemory {
    char name[48] = {};
    std::uint64_t begin = 0, bytes = 0;
};

/// What a watched process shares with its parent.
struct KernelWatch {
    static constexpr int kMostThreads = 64, kMostMemories = 32;

    KernelReport end;                 ///< what ended it
    KernelReport seen[kMostThreads];  ///< what each thread did when it was asked
    std::atomic<int> thread_count{0};
    std::atomic<int> threads[kMostThreads];  ///< their numbers in the system
    std::atomic<int> memory_count{0};
    WatchedMemory memories[kMostMemories];
};

/// From now on, in this process and for good: faults, abort() and exit() of kernels are written into `watch`, and
/// kWatchSignal makes every thread that runs a kernel write down where it is. For a process that is about to run
/// kernels and nothing else. watch must stay where it is.
void watch_kernels(KernelWatch& watch);
/// Forgets the memories told so far / adds one; nothing where nobody watches.
void forget_watched_memories();
void watch_memory(const char* name, const void* begin, std::size_t bytes);

extern const int kWatchSignal;

}  // namespace kiln
