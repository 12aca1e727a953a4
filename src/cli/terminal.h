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
    /// program: its name, in front of every message.
    explicit Terminal(std::string program);

    /// The text in that colour when standard output is a terminal.
    std::string painted(Colour colour, std::string_view text) const;
    /// "PROGRAM: MESSAGE" on standard error. Thread-safe.
    void note(std::string_view message) const;
    /// The same, the name in red on a terminal.
    void complain(std::string_view message) const;
    /// Writes to standard output. Throws UsageError when that fails (a full disk, a closed pipe).
    void print(std::string_view text) const;

    /// A question on standard error, answered on standard input; anything but y is no.
    bool ask(std::string_view question) const;

    bool input_is_terminal() const { return input_is_terminal_; }
    bool output_is_terminal() const { return output_is_terminal_; }
    bool errors_are_terminal() const { return errors_are_terminal_; }
    /// How wide standard output and standard error are now; 0: no terminal, and lines may have any length.
    int output_columns() const;
    int error_columns() const;

    /// Shows a line on standard error that stays last, below all messages, until the next call; empty: no
    /// line. Cut short where it would not fit, since only one line can be wiped. Only where that is a
    /// terminal. Thread-safe.
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

/// While it lives, what others write to standard output (a kernel's printf) goes to standard error: standard output
/// is the program's report.
class PrintsAside {
  public:
    PrintsAside();
    ~PrintsAside();
    PrintsAside(const PrintsAside&) = delete;
    PrintsAside& operator=(const PrintsAside&) = delete;

  private:
    int output_ = -1;
};

/// Shows as the terminal's status what is going on and for how long, if the phase lasts longer than a second;
/// wipes it when destroyed. The terminal must outlive it.
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
