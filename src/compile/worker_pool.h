// SPDX-License-Identifier: Apache-2.0
//
// WorkerPool: runs compile requests in processes of their own (kiln-compile-worker), several at once, each
// worker one request at a time and many after each other. A worker that dies, hangs or uses too much memory
// is a BuildError of its request and is replaced.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "compile/compile_protocol.h"

namespace kiln {

struct WorkerLimits {
    int workers = 1;                            ///< processes at once; more callers wait for one
    std::chrono::milliseconds timeout{120000};  ///< of one compile
    std::uint64_t memory_bytes = 0;             ///< address space of a worker; 0: no limit
    std::stop_token stop;                       ///< ends running compiles and rejects new ones
};

/// Thread-safe. Workers start when they are needed and stay for the next request. In a forked child the pool
/// starts workers of its own and leaves the parent's alone.
class WorkerPool {
  public:
    explicit WorkerPool(WorkerLimits limits);
    /// Ends the workers. Nobody may be in run() any more.
    ~WorkerPool();

    /// what: "NVRTC 13.0 compiling gemm_tiled.cu for sm_90a", for messages. Throws BuildError when no
    /// response comes back, with the reason and the worker's last words; `on_signal` is then added where
    /// a signal ended it. stop: of this request alone, in place of the limits'. A request with headers to precompile whose
    /// worker a signal ended is repeated without, and so are all later ones.
    CompileResponse run(const CompileRequest& request, const std::string& what,
                        const std::string& on_signal = {}, std::stop_token stop = {});

    const WorkerLimits& limits() const { return limits_; }

  private:
    /// was_killed: set when a signal ended the worker, and no time limit or stop did.
    CompileResponse run_once(const CompileRequest& request, const std::string& what,
                             const std::string& on_signal, const std::stop_token& stop, bool& was_killed);

    std::atomic<bool> precompiles_ =
        true;  // until a worker died that a compile without headers to precompile did not kill

    struct Worker;
    struct State;
    class Turn;

    State& state();

    const WorkerLimits limits_;
    std::atomic<State*> state_;
};

/// " Each compiler process may use ...": the memory limit as a possible reason; empty without one.
std::string memory_note(const WorkerLimits& limits);
/// True where a compiler's words are those of one that ran out of memory.
bool may_lack_memory(std::string_view log);

/// The worker program. Throws BuildError that says where it was looked for.
std::string worker_program();
/// Whether it is there.
bool has_worker_program();

}  // namespace kiln
