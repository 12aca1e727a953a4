// SPDX-License-Identifier: Apache-2.0
//
// Standard output and standard error as a person or a pipe sees them: colour and progress on a
// terminal only, every message on standard error with the program's name in front.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace kiln::cli {

/// To be called first: a file that is opened while standard input, output or error is closed would get its
/// number, and a report or a message would be written into it.
void reserve_standard_descriptors();

enum class Colour { none, red, green };

class Terminal {
  public:
    Terminal();

    /// The text in that colour when standard output is a terminal.
    std::string painted(Colour colour, std::string_view text) const;
    /// "jit-gemm: MESSAGE" on standard error. Thread-safe.
    void note(std::string_view message) const;
    /// The same, the name in red on a terminal.
    void complain(std::string_view message) const;
    /// Writes to standard output. Throws UsageError when that fails (a full disk, a closed pipe).
    void print(std::string_view text) const;

    bool output_is_terminal() const { return output_is_terminal_; }
    bool errors_are_terminal() const { return errors_are_terminal_; }

  private:
    bool output_is_terminal_;
    bool errors_are_terminal_;
};

/// Shows on standard error what is going on and for how long, if that is a terminal and the phase lasts
/// longer than a second; wipes the line when destroyed.
class Progress {
  public:
    Progress(const Terminal& terminal, std::string what);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

  private:
    void show();

    std::string what_;
    std::mutex mutex_;
    std::condition_variable ended_condition_;
    bool ended_ = false;
    std::thread thread_;
};

}  // namespace kiln::cli
