// SPDX-License-Identifier: Apache-2.0
//
// Plain stdio; each message is one write, so that lines of several threads do not mix.
#include "cli/terminal.h"

#include <fcntl.h>
#include <kiln/error.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include "format/format.h"
#include "format/printable.h"

namespace kiln::cli {
namespace {

constexpr std::string_view kWipe = "\r\033[K";
constexpr std::string_view kWipeRest = "\033[K";

std::string in_colour(Colour colour, std::string_view text) {
    const char* const code = colour == Colour::red ? "\033[31m" : colour == Colour::green ? "\033[32m" : "";
    return colour == Colour::none ? std::string(text) : code + std::string(text) + "\033[0m";
}

int columns_of(int descriptor) {
    winsize size{};
    return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void write_error(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace

void reserve_standard_descriptors() {
    // Opened for the opposite direction, so that writing to a closed output and reading a closed input still
    // fail.
    for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
        if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
        if (open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY) == -1) return;
    }
}

Terminal::Terminal(std::string program)
    : program_(std::move(program)),
      input_is_terminal_(isatty(STDIN_FILENO) == 1),
      output_is_terminal_(isatty(STDOUT_FILENO) == 1),
      errors_are_terminal_(isatty(STDERR_FILENO) == 1) {}

std::string Terminal::painted(Colour colour, std::string_view text) const {
    return in_colour(output_is_terminal_ ? colour : Colour::none, text);
}

int Terminal::output_columns() const { return output_is_terminal_ ? columns_of(STDOUT_FILENO) : 0; }
int Terminal::error_columns() const { return errors_are_terminal_ ? columns_of(STDERR_FILENO) : 0; }

void Terminal::say(const std::string& text) const {
    const std::lock_guard lock(mutex_);
    write_error(status_.empty() ? text : std::string(kWipe) + text + status_);
}

void Terminal::note(std::string_view message) const {
    if (!message.empty()) say(program_ + ": " + printable(message) + "\n");
}

void Terminal::complain(std::string_view message) const {
    say(in_colour(errors_are_terminal_ ? Colour::red : Colour::none, program_ + ":") + " " +
        printable(message) + "\n");
}

void Terminal::status(std::string_view line) const {
    if (!errors_are_terminal_) return;
    const std::lock_guard lock(mutex_);
    if (status_.empty() && line.empty()) return;
    status_ = line.empty() ? std::string() : program_ + ": " + printable(line);
    // The last column stays empty, since some terminals wrap as soon as it is written.
    status_.resize(std::min(status_.size(), static_cast<std::size_t>(error_columns() - 1)));
    write_error("\r" + status_ + std::string(kWipeRest));
}

bool Terminal::ask(std::string_view question) const {
    say(program_ + ": " + printable(question) + " [y/N] ");
    char answer[16] = {};
    if (std::fgets(answer, sizeof answer, stdin) == nullptr) return false;
    return answer[0] == 'y' || answer[0] == 'Y';
}

void Terminal::print(std::string_view text) const {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
        throw UsageError("can't write to standard output: it is closed, or its disk is full.");
}

StdoutToStderr::StdoutToStderr() {
    std::fflush(stdout);
    output_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (output_ >= 0) dup2(STDERR_FILENO, STDOUT_FILENO);
}

StdoutToStderr::~StdoutToStderr() {
    std::fflush(stdout);
    if (output_ < 0) return;
    dup2(output_, STDOUT_FILENO);
    close(output_);
}

Progress::Progress(const Terminal& terminal, std::string what) : terminal_(terminal), what_(std::move(what)) {
    if (terminal.errors_are_terminal()) thread_ = std::thread([this] { show(); });
}

Progress::~Progress() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        ended_ = true;
    }
    ended_condition_.notify_one();
    thread_.join();
}

void Progress::show() {
    std::unique_lock lock(mutex_);
    int seconds = 0;
    while (!ended_condition_.wait_for(lock, std::chrono::seconds(1), [this] { return ended_; })) {
        ++seconds;
        terminal_.status(formatted("{}, {} s ", what_, seconds));
    }
    if (seconds > 0) terminal_.status({});
}

}  // namespace kiln::cli
