// SPDX-License-Identifier: Apache-2.0
//
// A child process with its three standard streams on pipes, pumped by poll().
#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <system_error>

#include "base/config.h"
#include "base/fork.h"
#include "format/format.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
    FileDescriptor read;
    FileDescriptor write;

    static Pipe make() {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
        return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
    }
};

struct FileActions {
    posix_spawn_file_actions_t value;
    FileActions() { posix_spawn_file_actions_init(&value); }
    ~FileActions() { posix_spawn_file_actions_destroy(&value); }
};

struct Attributes {
    posix_spawnattr_t value;
    Attributes() { posix_spawnattr_init(&value); }
    ~Attributes() { posix_spawnattr_destroy(&value); }
};

std::vector<std::string> child_environment(const ProcessSetup& setup) {
    std::vector<std::string> result;
    const auto replaced = [&](std::string_view name) {
        return std::any_of(setup.environment.begin(), setup.environment.end(),
                           [&](const auto& item) { return item.first == name; }) ||
               (setup.drops && setup.drops(name));
    };
    for (const auto& [name, value] : config::environment())
        if (!replaced(name)) result.push_back(name + "=" + value);
    for (const auto& [name, value] : setup.environment) result.push_back(name + "=" + value);
    return result;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
    std::vector<char*> result;
    for (auto& string : strings) result.push_back(string.data());
    result.push_back(nullptr);
    return result;
}

// Reads what is there; closes the descriptor at the end of the stream.
void drain(FileDescriptor& fd, std::string& text) {
    std::array<char, 65536> buffer;
    const ssize_t count = ::read(fd.value(), buffer.data(), buffer.size());
    if (count > 0) {
        text.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
        fd.reset();
    }
}

// Writes what fits; closes the descriptor when there is no reader.
void feed(FileDescriptor& fd, std::string_view& rest) {
    const ssize_t count = ::write(fd.value(), rest.data(), rest.size());
    if (count > 0) rest.remove_prefix(static_cast<std::size_t>(count));
    if (count < 0 && errno != EINTR && errno != EAGAIN) fd.reset();
}

// A limit that is set from outside after the start would not apply to processes that the child has started by
// then, so the shell sets it before it executes the program. A lower existing limit stays.
std::vector<std::string> limited_arguments(const ProcessSetup& setup) {
    if (setup.memory_bytes == 0) return setup.arguments;
    constexpr std::uint64_t kUnit = 1024;
    std::vector<std::string> result = {"/bin/sh", "-c", "ulimit -v \"$0\" 2>/dev/null; exec \"$@\"",
                                       std::to_string((setup.memory_bytes + kUnit - 1) / kUnit)};
    result.insert(result.end(), setup.arguments.begin(), setup.arguments.end());
    return result;
}

}  // namespace

std::string ProcessResult::how_it_ended(std::chrono::milliseconds timeout) const {
    if (!started) return "did not start: " + start_error;
    if (stopped) return "was ended, since a stop was requested";
    if (timed_out) {
        const auto ms = timeout.count();
        return "ran longer than its limit of " +
               (ms % 1000 == 0 ? formatted("{} s", ms / 1000) : formatted("{} ms", ms));
    }
    if (status_lost)
        return "ended, but its status is lost: this program ignores SIGCHLD, or another part of it waits for "
               "every child";
    if (signal != 0) return formatted("was killed by signal {} ({})", signal, ::strsignal(signal));
    return formatted("exited with status {}", exit_status);
}

ChildProcess::ChildProcess(const ProcessSetup& setup) : generation_(fork_generation()) {
    Pipe input = Pipe::make(), output = Pipe::make(), error = Pipe::make();
    FileActions actions;
    posix_spawn_file_actions_adddup2(&actions.value, input.read.value(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions.value, output.write.value(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions.value, error.write.value(), STDERR_FILENO);
    if (!setup.directory.empty())
        posix_spawn_file_actions_addchdir_np(&actions.value, setup.directory.c_str());

    // Its own process group, so that a time-out reaches grandchildren; and plain signal handling
    // whatever the application has set.
    Attributes attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes.value, &none);
    posix_spawnattr_setsigdefault(&attributes.value, &all);
    posix_spawnattr_setpgroup(&attributes.value, 0);
    posix_spawnattr_setflags(&attributes.value,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

    auto arguments = limited_arguments(setup);
    auto environment = child_environment(setup);
    errno = 0;
    int status = ::posix_spawnp(&child_, arguments[0].c_str(), &actions.value, &attributes.value,
                                pointers(arguments).data(), pointers(environment).data());
    // Where clone() fails, glibc 2.34 and 2.35 return EPERM for whatever reason (their bug 29109).
    if (status == EPERM && errno != 0) status = errno;
    if (status != 0)
        throw std::system_error(status, std::generic_category(),
                                setup.arguments[0] + (status == EAGAIN ? " (ulimit -u?)" : ""));
    result_.started = true;
    input_ = std::move(input.write);
    output_ = std::move(output.read);
    error_ = std::move(error.read);
    for (const auto* fd : {&input_, &output_, &error_})
        ::fcntl(fd->value(), F_SETFL, ::fcntl(fd->value(), F_GETFL) | O_NONBLOCK);
}

ChildProcess::~ChildProcess() {
    if (generation_ == fork_generation()) kill();
}

// Records how it ended, if it has; with flags 0 waits for the end.
bool ChildProcess::reap(int flags) {
    while (!reaped_) {
        int status = 0;
        const pid_t waited = ::waitpid(child_, &status, flags);
        if (waited < 0 && errno == EINTR) continue;
        if (waited == 0) return false;
        reaped_ = true;
        result_.status_lost = waited < 0;
        if (waited > 0 && WIFEXITED(status)) result_.exit_status = WEXITSTATUS(status);
        if (waited > 0 && WIFSIGNALED(status)) result_.signal = WTERMSIG(status);
    }
    return true;
}

void ChildProcess::kill() {
    if (reaped_) return;
    ::kill(-child_, SIGKILL);
    ::kill(child_, SIGKILL);
    reap(0);
}

bool ChildProcess::running() { return !reap(WNOHANG); }

bool ChildProcess::exchange(const Exchange& exchange) {
    constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);  // what the clock can add
    const auto deadline = Clock::now() + std::min(exchange.timeout, kLongest);
    const WriteSignalBlock no_sigpipe;
    std::string_view rest = exchange.input;
    while (!reap(WNOHANG)) {
        if (rest.empty() && exchange.last) input_.reset();
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
        result_.stopped = exchange.stop.stop_requested();
        result_.timed_out = !result_.stopped && left.count() <= 0;
        if (result_.stopped || result_.timed_out) {
            kill();
            break;
        }
        std::array<pollfd, 3> polled = {{{rest.empty() ? -1 : input_.value(), POLLOUT, 0},
                                         {output_.value(), POLLIN, 0},
                                         {error_.value(), POLLIN, 0}}};
        // Once its streams are closed the child is about to end; until then a short sleep is enough for one
        // that closed them early or left them to a grandchild.
        const bool streams_open = output_ || error_;
        const int nap = streams_open ? static_cast<int>(std::min<long long>(left.count(), 100)) : 1;
        if (::poll(polled.data(), polled.size(), nap) <= 0) continue;
        if (polled[0].revents != 0) feed(input_, rest);
        if (polled[1].revents != 0) drain(output_, result_.output);
        if (polled[2].revents != 0) drain(error_, result_.error);
        if (exchange.enough && rest.empty() && exchange.enough(result_)) return true;
    }
    // What the child wrote just before it ended is still in the pipes.
    for (auto [fd, text] : {std::pair{&output_, &result_.output}, std::pair{&error_, &result_.error}}) {
        while (*fd) {
            pollfd polled{fd->value(), POLLIN, 0};
            if (::poll(&polled, 1, 0) <= 0) break;
            drain(*fd, *text);
        }
    }
    return false;
}

ProcessResult run_process(const ProcessRequest& request) {
    try {
        ChildProcess child(request);
        child.exchange({request.input, true, request.timeout, request.stop, {}});
        return std::move(child.result());
    } catch (const std::system_error& error) {
        ProcessResult result;
        result.start_error = error.what();
        return result;
    }
}

}  // namespace kiln
