// SPDX-License-Identifier: Apache-2.0
//
// The workers that are idle, the count of those that are busy, and one exchange with a worker.
#include "compile/worker_pool.h"

#include <kiln/error.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/config.h"
#include "base/dynamic_library.h"
#include "base/file.h"
#include "base/fork.h"
#include "base/process.h"
#include "base/words.h"
#include "compile/compiler_environment.h"
#include "format/format.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

CompilerKind kind_of(RuntimeProduct product) {
    return product == RuntimeProduct::nvrtc ? CompilerKind::nvrtc : CompilerKind::hiprtc;
}

constexpr std::chrono::seconds kGrace{2};  // for a worker to end once its input is closed

std::string last_words(std::string text) {
    constexpr std::size_t kBytes = 4000;
    if (text.size() > kBytes) text = "..." + text.substr(text.size() - kBytes);
    return text;
}

}  // namespace

// One process, with a directory for its temporary files that goes when it goes.
struct WorkerPool::Worker {
    Worker(std::string serves_, const std::string& program, const CompileRequest& request,
           std::uint64_t memory_bytes)
        : serves(std::move(serves_)),
          scratch(std::make_unique<TemporaryDirectory>()),
          child(setup(program, scratch->path(), request, memory_bytes)) {}
    ~Worker() {
        if (generation != fork_generation()) (void)scratch.release();  // it is the parent's
    }
    /// Closes its input, on which it ends by itself, or is killed.
    void end() { child.exchange({{}, true, kGrace, {}, {}}); }

    static ProcessSetup setup(const std::string& program, const fs::path& scratch,
                              const CompileRequest& request, std::uint64_t memory_bytes) {
        ProcessSetup setup;
        setup.arguments = {program, scratch.string()};
        setup.directory = scratch;
        setup.environment = request.environment;
        setup.environment.emplace_back("TMPDIR", scratch.string());
        setup.drops = [kind = kind_of(request.product)](std::string_view name) {
            return treatment_of(kind, name) != VariableTreatment::harmless;
        };
        setup.memory_bytes = memory_bytes;
        return setup;
    }

    /// Whether a request should rather go to another process than wait until this one has precompiled headers.
    bool keeps_waiting(const CompileRequest& request) const {
        const auto now = std::chrono::steady_clock::now();
        if (now < precompiles_from || now > precompiles_until) return false;
        const bool waits_for_its_own = request.hoisted_key == precompiled_key;
        return precompiles_until - now > (waits_for_its_own ? gain : std::chrono::steady_clock::duration());
    }
    /// It was given back after a compile of so long.
    void will_precompile(const CompileRequest& request, std::chrono::steady_clock::duration compile) {
        precompiles_from = std::chrono::steady_clock::now() + kIdleBeforePrecompiling;
        precompiles_until = precompiles_from + compile;
        gain = compile * 2 / 3;
        precompiled_key = request.hoisted_key;
    }

    const std::string serves;  // what it can be asked for
    const unsigned generation = fork_generation();
    std::unique_ptr<TemporaryDirectory> scratch;  // outlives the child
    ChildProcess child;
    // When it precompiles headers if it is not asked before, about, and what that saves a compile.
    std::chrono::steady_clock::time_point precompiles_from, precompiles_until;
    std::chrono::steady_clock::duration gain{};
    std::string precompiled_key;
};

struct WorkerPool::State {
    explicit State(int workers) { idle.reserve(static_cast<std::size_t>(std::max(workers, 1)) + 1); }

    const unsigned generation = fork_generation();
    State* inherited = nullptr;  // the parent process's
    std::mutex mutex;
    std::condition_variable_any ended;  // a worker is free
    std::vector<std::unique_ptr<Worker>> idle;
    int busy = 0;
};

// One caller's right to one of the workers, waited for.
class WorkerPool::Turn {
  public:
    Turn(State& state, int workers, const std::stop_token& stop, const std::string& what) : state_(state) {
        std::unique_lock lock(state.mutex);
        const bool free = state.ended.wait(lock, stop, [&] { return state.busy < std::max(workers, 1); });
        if (!free || stop.stop_requested()) {
            state.ended.notify_one();  // the free worker may have been announced to this one
            throw BuildError(what + ": not begun, since a stop was requested.");
        }
        ++state.busy;
    }
    ~Turn() {
        {
            const std::lock_guard lock(state_.mutex);
            if (worker_) state_.idle.push_back(std::move(worker_));
            --state_.busy;
        }
        state_.ended.notify_one();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    /// The idle worker that was used last among those for this, if one lives.
    std::unique_ptr<Worker> take(const std::string& serves) {
        for (;;) {
            std::unique_ptr<Worker> worker;  // a dead one is removed outside the lock
            {
                const std::lock_guard lock(state_.mutex);
                const auto found = std::find_if(state_.idle.rbegin(), state_.idle.rend(),
                                                [&](const auto& idle) { return idle->serves == serves; });
                if (found == state_.idle.rend()) return nullptr;
                worker = std::move(*found);
                state_.idle.erase(std::next(found).base());
            }
            if (worker->child.running()) return worker;
        }
    }
    /// Ends idle workers, the longest idle first, until one more may be started.
    void make_room(int workers) {
        std::vector<std::unique_ptr<Worker>> surplus;
        {
            const std::lock_guard lock(state_.mutex);
            const auto keep = static_cast<std::size_t>(std::max(workers - state_.busy, 0));
            while (state_.idle.size() > keep) {
                surplus.push_back(std::move(state_.idle.front()));
                state_.idle.erase(state_.idle.begin());
            }
        }
        for (auto& worker : surplus) worker->end();
    }
    /// It becomes idle when the turn ends.
    void give_back(std::unique_ptr<Worker> worker) { worker_ = std::move(worker); }

  private:
    State& state_;
    std::unique_ptr<Worker> worker_;
};

WorkerPool::WorkerPool(WorkerLimits limits)
    : limits_(std::move(limits)), state_(new State(limits_.workers)) {}

WorkerPool::~WorkerPool() {
    for (State* state = state_; state != nullptr;) {
        State* const inherited = state->inherited;
        if (state->generation == fork_generation()) {
            for (auto& worker : state->idle) worker->end();
            delete state;
        } else if (state->mutex.try_lock()) {  // else a thread of the parent was changing it at the fork
            state->mutex.unlock();
            delete state;
        }
        state = inherited;
    }
}

WorkerPool::State& WorkerPool::state() {
    State* state = state_;
    if (state->generation == fork_generation()) return *state;
    auto own = std::make_unique<State>(limits_.workers);
    own->inherited = state;
    if (!state_.compare_exchange_strong(state, own.get())) return *state;  // another thread was first
    // Closes the pipes to the parent's idle workers, which would keep them alive past the parent.
    if (state->mutex.try_lock()) {
        state->idle.clear();
        state->mutex.unlock();
    }
    return *own.release();
}

std::string memory_note(const WorkerLimits& limits) {
    if (limits.memory_bytes == 0) return {};
    return " Each compiler process may use " + bytes_text(limits.memory_bytes) +
           " of address space (the memory limit); more may be needed.";
}

bool may_lack_memory(std::string_view log) {
    for (const std::string_view words : {"out of memory", "memory exhausted", "annot allocate memory",
                                         "bad_alloc", "catastrophic error", "internal compiler error"}) {
        if (log.find(words) != std::string_view::npos) return true;
    }
    // The loader's, of a compiler's library; it is also what a directory says that nothing may be executed in.
    return log.find("failed to map segment") != std::string_view::npos &&
           log.find("Operation not permitted") == std::string_view::npos;
}

CompileResponse WorkerPool::run(const CompileRequest& request, const std::string& what,
                                const std::string& on_signal, std::stop_token stop) {
    if (!stop.stop_possible()) stop = limits_.stop;
    bool was_killed = false;
    if (request.hoisted.empty() || precompiles_) {
        try {
            return run_once(request, what, on_signal, stop, was_killed);
        } catch (const BuildError&) {
            if (!was_killed || request.hoisted.empty()) throw;
        }
    }
    // NVRTC maps the file of a PCH: SIGBUS where the file system has become full. One death is enough.
    CompileRequest plain = request;
    plain.hoisted.clear();
    plain.hoisted_key.clear();
    CompileResponse response = run_once(plain, what, on_signal, stop, was_killed);
    precompiles_ = false;
    return response;
}

CompileResponse WorkerPool::run_once(const CompileRequest& request, const std::string& what,
                                     const std::string& on_signal, const std::stop_token& stop,
                                     bool& was_killed) {
    const std::string message = encode(request);
    if (arrival(message) != Arrival::whole)
        throw BuildError(what + ": the source takes " + bytes_text(message.size()) +
                         " with its headers, which is more than " + bytes_text(kMaxMessageBytes) + ".");
    const std::string program = worker_program();
    std::string serves = program + '\n' + request.library + '\n' + request.build;
    for (const auto& [name, value] : request.environment) serves += '\n' + name + '=' + value;

    Turn turn(state(), limits_.workers, stop, what);
    auto worker = turn.take(serves);
    if (worker && worker->keeps_waiting(request)) {
        worker->end();
        worker.reset();
    }
    if (!worker) {
        turn.make_room(limits_.workers);
        try {
            worker = std::make_unique<Worker>(serves, program, request, limits_.memory_bytes);
        } catch (const std::system_error& error) {
            throw BuildError(what + ": no worker process could be started: " + error.what() + ".");
        }
    }

    auto& result = worker->child.result();
    result.output.clear();
    result.error.clear();
    constexpr std::size_t kWordsBytes = 1 << 20;  // of what a library prints, the end is kept
    const auto enough = [&](ProcessResult& texts) {
        if (texts.error.size() > 2 * kWordsBytes) texts.error.erase(0, texts.error.size() - kWordsBytes);
        return arrival(texts.output) != Arrival::partial;
    };
    const auto begin = std::chrono::steady_clock::now();
    const bool answered = worker->child.exchange({message, false, limits_.timeout, stop, enough});
    auto response = decode_response(result.output);
    if (answered && response && response->status != CompileStatus::out_of_memory) {
        // The state of hipRTC after an error is not to be trusted.
        const bool fit_for_more =
            response->status == CompileStatus::ok ||
            (request.product == RuntimeProduct::nvrtc && response->status == CompileStatus::refused);
        worker->precompiles_until = {};
        if (response->precompiles) worker->will_precompile(request, std::chrono::steady_clock::now() - begin);
        fit_for_more ? turn.give_back(std::move(worker)) : worker->end();
        return std::move(*response);
    }
    if (answered && response)
        throw BuildError(what + ": not enough memory." + memory_note(limits_), response->log);
    if (answered || result.succeeded())
        throw BuildError(formatted("{}: the worker process {} gave no proper response ({} bytes). It may "
                                   "belong to another version of Kiln.",
                                   what, program, result.output.size()),
                         last_words(result.error));
    std::string failure = what + ": the worker process " + result.how_it_ended(limits_.timeout) + ".";
    if (!result.stopped && !result.timed_out) failure += memory_note(limits_);
    was_killed = result.signal != 0 && !result.timed_out && !result.stopped;
    if (result.signal != 0 && !result.timed_out && !on_signal.empty() && !may_lack_memory(result.error))
        failure += " " + on_signal;
    throw BuildError(failure, last_words(result.error));
}

std::string worker_program() {
    constexpr const char* kName = "kiln-compile-worker";
    std::error_code error;
    if (const auto chosen = config::compile_worker()) {
        if (fs::is_regular_file(*chosen, error)) return fs::absolute(*chosen).string();
        throw BuildError("KILN_COMPILE_WORKER is set to \"" + chosen->string() +
                         "\", which is no file. Set it to the program kiln-compile-worker, or unset it.");
    }
    const fs::path own = own_directory();
    std::vector<std::string> places;
    for (const char* relative : {".", "../bin", "../libexec/kiln", "../../libexec/kiln"}) {
        const fs::path directory = (own / relative).lexically_normal();
        if (fs::is_regular_file(directory / kName, error)) return (directory / kName).string();
        places.push_back(directory.string());
    }
    throw BuildError(std::string("The program ") + kName +
                     ", in which Kiln runs the runtime compilers, is not in " + enumerate(places) +
                     ". Install all of Kiln, or set KILN_COMPILE_WORKER to the program.");
}

bool has_worker_program() {
    try {
        (void)worker_program();
        return true;
    } catch (const BuildError&) {
        return false;
    }
}

}  // namespace kiln
