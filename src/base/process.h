// SPDX-License-Identifier: Apache-2.0
//
// Child processes: an argument vector (no shell), text in, text out, limits of time and memory. run_process
// runs a program to its end; ChildProcess is a child to talk with. posix_spawn throughout, so that a process
// with gigabytes mapped is not copied.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"

namespace kiln {

struct ProcessSetup {
    std::vector<std::string> arguments;  ///< arguments[0] is the program: a path, or a name sought in PATH
    std::filesystem::path directory;     ///< its working directory; empty: this process's
    std::vector<std::pair<std::string, std::string>> environment;  ///< set on top of this process's own
    /// Whether a variable of this process is kept from the child; asked as the child is started.
    std::function<bool(std::string_view name)> drops;
    /// Address space of the child and of each process below it; 0: no limit but this process's own.
    std::uint64_t memory_bytes = 0;
};

struct ProcessRequest : ProcessSetup {
    std::string input;  ///< written to its standard input, which is then closed
    std::chrono::milliseconds timeout{60000};
    std::stop_token stop;  ///< a stop request ends it as the time limit does, within a tenth of a second
};

struct ProcessResult {
    bool started = false;
    std::string start_error;   ///< why it did not start
    int exit_status = -1;      ///< valid when it exited by itself
    int signal = 0;            ///< what ended it, 0 for a normal exit
    bool timed_out = false;    ///< killed at the time limit
    bool stopped = false;      ///< killed because a stop was requested
    bool status_lost = false;  ///< it ended, and another waiter got its status
    std::string output;        ///< standard output
    std::string error;         ///< standard error

    bool succeeded() const { return started && !timed_out && !stopped && signal == 0 && exit_status == 0; }
    /// "exited with status 1", "was killed by signal 6 (Aborted)", "ran longer than 5 s".
    std::string how_it_ended(std::chrono::milliseconds timeout) const;
};

/// Never throws for what the child does. The child is always reaped; of a child that is
/// timed out or stopped the whole process group is killed. Thread-safe.
ProcessResult run_process(const ProcessRequest& request);

/// A child with its standard streams on pipes, in a process group of its own. For one thread at a time.
class ChildProcess {
  public:
    struct Exchange {
        std::string_view input;
        bool last = true;  ///< its standard input is closed behind this input
        std::chrono::milliseconds timeout{60000};
        std::stop_token stop;
        /// Asked when output has come: true ends the exchange and lets the child live. It may empty the
        /// texts.
        std::function<bool(ProcessResult&)> enough;
    };

    /// Starts it. Throws std::system_error that names the program and the reason.
    explicit ChildProcess(const ProcessSetup& setup);
    /// Kills what still runs, the whole group, and reaps it. After a fork() the other process only closes
    /// its ends of the pipes.
    ~ChildProcess();
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;

    /// Writes the input while reading what comes. True when it was `enough`; else the child has ended, or was
    /// killed at the time limit or for a stop request, and result() says how.
    bool exchange(const Exchange& exchange);
    /// False when it has ended.
    bool running();
    /// Its texts so far and, once it has ended, how.
    ProcessResult& result() { return result_; }

  private:
    void kill();
    bool reap(int flags);

    ProcessResult result_;
    FileDescriptor input_;
    FileDescriptor output_;
    FileDescriptor error_;
    pid_t child_ = 0;
    bool reaped_ = false;
    const unsigned generation_;  // of forks, when it was started
};

}  // namespace kiln
