// SPDX-License-Identifier: Apache-2.0
//
// Standard output and standard error. Colour and progress are used on a terminal only; messages go to
// standard error, with the program's name in front, and without the control characters of files that they quote.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace kiln::cli {

/// To be called first. If standard input, output or error is closed, a file opened later would get its
/// descriptor, and reports or messages would be written into it.
void reserve_standard_descriptors();

enum class Colour { none, red, green };

class Terminal {
  public:
    /// program: its name, in front of every message.
    explicit Terminal(std::string program);

    /// The text in that colour when standard output is a terminal.
    std::string painted(Colour colour, std::string_view text) const;
    /// "PROGRAM: MESSAGE" on standard error; nothing for an empty message. Thread-safe.
    void note(std::string_view message) const;
    /// The same, the name in red on a terminal.
    void complain(std::string_view message) const;
    /// Writes to standard output. Throws UsageError when that fails (a full disk, a closed pipe).
    void print(std::string_view text) const;

    /// Asks a question on standard error and reads the answer from standard input; anything but y means no.
    bool ask(std::string_view question) const;

    bool input_is_terminal() const { return input_is_terminal_; }
    bool output_is_terminal() const { return output_is_terminal_; }
    bool errors_are_terminal() const { return errors_are_terminal_; }
    /// How wide standard output and standard error are now; 0: no terminal, and lines may have any length.
    int output_columns() const;
    int error_columns() const;

    /// Shows a status line on standard error, below all messages, until the next call; empty: no line.
    /// Truncated to the width of the terminal, since only one line can be cleared. Only on a terminal.
    /// Thread-safe.
    void status(std::string_view line) const;

  private:
    void say(const std::string& text) const;

    std::string program_;
    bool input_is_terminal_;
    bool output_is_terminal_;
    bool errors_are_terminal_;
    mutable std::mutex mutex_;
    mutable std::string status_;
};

/// During its lifetime, output of others to standard output (a kernel's printf) is redirected to standard error,
/// since standard output is the program's report.
class StdoutToStderr {
  public:
    StdoutToStderr();
    ~StdoutToStderr();
    StdoutToStderr(const StdoutToStderr&) = delete;
    StdoutToStderr& operator=(const StdoutToStderr&) = delete;

  private:
    int output_ = -1;
};

/// Shows the current phase and its duration as the terminal's status, if it lasts longer than a second;
/// cleared by the destructor. The terminal must outlive it.
class Progress {
  public:
    Progress(const Terminal& terminal, std::string what);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

  private:
    void show();

    const Terminal& terminal_;
    std::string what_;
    std::mutex mutex_;
    std::condition_variable ended_condition_;
    bool ended_ = false;
    std::thread thread_;
};

}  // namespace kiln::cli
