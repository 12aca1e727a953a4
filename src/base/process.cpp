// SPDX-License-Identifier: Apache-2.0
//
// A child process with its three standard streams on pipes, pumped by poll() until it ends.
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

#include "base/file.h"

extern char** environ;

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

std::vector<std::string> child_environment(const ProcessRequest& request) {
    std::vector<std::string> result;
    const auto replaced = [&](std::string_view entry) {
        const auto name = entry.substr(0, entry.find('='));
        return std::any_of(request.environment.begin(), request.environment.end(),
                           [&](const auto& item) { return item.first == name; }) ||
               std::find(request.unset_environment.begin(), request.unset_environment.end(), name) !=
                   request.unset_environment.end();
    };
    for (char** entry = environ; *entry != nullptr; ++entry) {
        if (!replaced(*entry)) result.emplace_back(*entry);
    }
    for (const auto& [name, value] : request.environment) result.push_back(name + "=" + value);
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

// Writing to a child that closed its input raises SIGPIPE in this thread; a library must not let that
// end the application, nor change its handler.
class BlockSigpipe {
  public:
    BlockSigpipe() {
        sigset_t pending;
        sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGPIPE) == 1;
        sigemptyset(&set_);
        sigaddset(&set_, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &set_, &old_);
    }
    ~BlockSigpipe() {
        if (!was_pending_) {
            const timespec zero{};
            while (sigtimedwait(&set_, nullptr, &zero) > 0) {
            }
        }
        pthread_sigmask(SIG_SETMASK, &old_, nullptr);
    }

  private:
    sigset_t set_;
    sigset_t old_;
    bool was_pending_ = false;
};

void feed(FileDescriptor& fd, std::string_view& rest) {
    const ssize_t count = ::write(fd.value(), rest.data(), rest.size());
    if (count > 0) rest.remove_prefix(static_cast<std::size_t>(count));
    if (rest.empty() || (count < 0 && errno != EINTR && errno != EAGAIN)) fd.reset();
}

}  // namespace

std::string ProcessResult::how_it_ended(std::chrono::milliseconds timeout) const {
    if (!started) return "did not start: " + start_error;
    if (stopped) return "was ended, since a stop was requested";
    if (timed_out) {
        const auto ms = timeout.count();
        return "ran longer than its limit of " +
               (ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms");
    }
    if (status_lost)
        return "ended, but its status is lost: this program ignores SIGCHLD, or another part of it waits for "
               "every child";
    if (signal != 0)
        return "was killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
    return "exited with status " + std::to_string(exit_status);
}

ProcessResult run_process(const ProcessRequest& request) {
    ProcessResult result;
    constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);  // what the clock can add
    const auto deadline = Clock::now() + std::min(request.timeout, kLongest);
    Pipe input, output, error;
    try {
        input = Pipe::make();
        output = Pipe::make();
        error = Pipe::make();
    } catch (const std::exception& exception) {
        result.start_error = exception.what();
        return result;
    }

    FileActions actions;
    posix_spawn_file_actions_adddup2(&actions.value, input.read.value(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions.value, output.write.value(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions.value, error.write.value(), STDERR_FILENO);
    if (!request.directory.empty())
        posix_spawn_file_actions_addchdir_np(&actions.value, request.directory.c_str());

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

    auto arguments = request.arguments;
    auto environment = child_environment(request);
    pid_t child = 0;
    const int status = ::posix_spawnp(&child, arguments[0].c_str(), &actions.value, &attributes.value,
                                      pointers(arguments).data(), pointers(environment).data());
    input.read.reset();
    output.write.reset();
    error.write.reset();
    if (status != 0) {
        result.start_error = arguments[0] + ": " + std::strerror(status);
        return result;
    }
    result.started = true;

    const BlockSigpipe no_sigpipe;
    for (const auto* fd : {&input.write, &output.read, &error.read})
        ::fcntl(fd->value(), F_SETFL, ::fcntl(fd->value(), F_GETFL) | O_NONBLOCK);
    std::string_view rest = request.input;
    if (rest.empty()) input.write.reset();

    int wait_status = 0;
    bool reaped = false;
    while (!reaped) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
        result.stopped = request.stop.stop_requested();
        result.timed_out = !result.stopped && left.count() <= 0;
        if (result.stopped || result.timed_out) {
            ::kill(-child, SIGKILL);
            ::kill(child, SIGKILL);
            while (::waitpid(child, &wait_status, 0) < 0 && errno == EINTR) {
            }
            break;
        }
        std::array<pollfd, 3> polled = {{{input.write.value(), POLLOUT, 0},
                                         {output.read.value(), POLLIN, 0},
                                         {error.read.value(), POLLIN, 0}}};
        // Once its streams are closed the child is about to end; until then a short nap suffices
        // for one that closed them early or left them to a grandchild.
        const bool streams_open = output.read || error.read;
        const int nap = streams_open ? static_cast<int>(std::min<long long>(left.count(), 100)) : 1;
        if (::poll(polled.data(), polled.size(), nap) > 0) {
            if (polled[0].revents != 0) feed(input.write, rest);
            if (polled[1].revents != 0) drain(output.read, result.output);
            if (polled[2].revents != 0) drain(error.read, result.error);
            if (streams_open && (output.read || error.read)) continue;
        }
        const pid_t waited = ::waitpid(child, &wait_status, WNOHANG);
        result.status_lost = waited < 0 && errno != EINTR;
        reaped = waited == child || result.status_lost;
    }
    // What the child wrote just before it ended is still in the pipes.
    for (auto [fd, text] : {std::pair{&output.read, &result.output}, std::pair{&error.read, &result.error}}) {
        while (*fd) {
            pollfd polled{fd->value(), POLLIN, 0};
            if (::poll(&polled, 1, 0) <= 0) break;
            drain(*fd, *text);
        }
    }
    if (result.status_lost) return result;
    if (WIFEXITED(wait_status)) result.exit_status = WEXITSTATUS(wait_status);
    if (WIFSIGNALED(wait_status)) result.signal = WTERMSIG(wait_status);
    return result;
}

}  // namespace kiln
