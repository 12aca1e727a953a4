// SPDX-License-Identifier: Apache-2.0
//
// Runs a program to its end: argument vector (no shell), text in, text out, a time limit. Uses
// posix_spawn, so a process with gigabytes mapped is not copied. Thread-safe.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

struct ProcessRequest {
    std::vector<std::string> arguments;  ///< arguments[0] is the program: a path, or a name sought in PATH
    std::string input;                   ///< written to its standard input, which is then closed
    std::filesystem::path directory;     ///< its working directory; empty: this process's
    std::vector<std::pair<std::string, std::string>> environment;  ///< set on top of this process's own
    std::vector<std::string> unset_environment;                    ///< names taken away
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
    bool status_lost = false;  ///< it ended, and somebody else was told how
    std::string output;        ///< standard output
    std::string error;         ///< standard error

    bool succeeded() const { return started && !timed_out && !stopped && signal == 0 && exit_status == 0; }
    /// "exited with status 1", "was killed by signal 6 (Aborted)", "ran longer than 5 s".
    std::string how_it_ended(std::chrono::milliseconds timeout) const;
};

/// Never throws for what the child does. The child is always reaped; of a child that is
/// timed out or stopped the whole process group is killed.
ProcessResult run_process(const ProcessRequest& request);

}  // namespace kiln
