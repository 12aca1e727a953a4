// SPDX-License-Identifier: Apache-2.0
//
// A message from the child is a letter, a length and that many bytes: phases as they begin, and at the end the result
// or the exception. Then the parent kills the child, so that no thread of a kernel continues.
#include "run/isolated.h"

#include <fcntl.h>
#include <kiln/error.h>
#include <kiln/run.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>

#include "base/config.h"
#include "base/file.h"
#include "base/fork.h"
#include "format/format.h"
#include "run/kernel_failure.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPoll{100};
constexpr std::chrono::seconds kToStart{3};      // the least time before the first kernel
constexpr std::chrono::seconds kFirstAnswer{5};  // to wait for a thread's call stack
constexpr std::chrono::seconds kAnswer{1};       // and then for one of a thread in a kernel
constexpr char kPhase = 'p', kResult = 'r', kError = 'e';

/// An exception of the library, to be thrown again in another process.
struct ErrorText {
    enum class Class : char { any, usage, in_template, variant, build, not_ready, cache, device, memory };
    Class of = Class::any;
    std::string message;
    std::string detail = {};  ///< the file, the rule, the log or the call
    int number = 0;           ///< the line or the code
    int column = 0;
    Sizes sizes = {};
};

ErrorText text_of(const std::exception& error) {
    using Class = ErrorText::Class;
    const std::string what = error.what();
    if (const auto* const in_template = dynamic_cast<const TemplateError*>(&error))
        return {Class::in_template, what, in_template->file(), in_template->line(), in_template->column()};
    if (const auto* const variant = dynamic_cast<const VariantError*>(&error))
        return {Class::variant, what, variant->rule()};
    if (const auto* const build = dynamic_cast<const BuildError*>(&error))
        return {Class::build, what, build->log()};
    if (const auto* const device = dynamic_cast<const DeviceError*>(&error))
        return {Class::device, what, device->call(), device->code()};
    if (const auto* const not_ready = dynamic_cast<const NotReadyError*>(&error))
        return {.of = Class::not_ready, .message = what, .sizes = not_ready->sizes()};
    if (dynamic_cast<const UsageError*>(&error) != nullptr) return {Class::usage, what};
    if (dynamic_cast<const CacheError*>(&error) != nullptr) return {Class::cache, what};
    if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return {Class::memory, what};
    return {Class::any, what};
}

[[noreturn]] void throw_again(const ErrorText& error) {
    using Class = ErrorText::Class;
    std::string_view text = error.message;
    switch (error.of) {
        case Class::usage:
            throw UsageError(error.message);
        case Class::in_template: {
            // The constructor prepends the place, and that of BuildError appends the log.
            const std::string place =
                error.number == 0 ? std::string() : formatted(":{}:{}", error.number, error.column);
            if (text.starts_with(error.detail + place + ": "))
                text.remove_prefix(error.detail.size() + place.size() + 2);
            throw TemplateError(error.detail, error.number, error.column, std::string(text));
        }
        case Class::variant:
            throw VariantError(error.message, error.detail);
        case Class::build:
            if (!error.detail.empty() && text.ends_with("\n" + error.detail))
                text.remove_suffix(error.detail.size() + 1);
            throw BuildError(std::string(text), error.detail);
        case Class::not_ready:
            throw NotReadyError(error.message, error.sizes);
        case Class::cache:
            throw CacheError(error.message);
        case Class::device:
            throw DeviceError(error.message, error.detail, error.number);
        case Class::memory:
            throw std::bad_alloc();
        case Class::any:
            break;
    }
    throw Error(error.message);
}

bool send(int pipe, char kind, std::string_view bytes) {
    std::string head(1, kind);
    const std::uint64_t size = bytes.size();
    head.append(reinterpret_cast<const char*>(&size), sizeof size);
    return write_all(pipe, std::as_bytes(std::span(head))) &&
           write_all(pipe, std::as_bytes(std::span(bytes)));
}

/// Assembles messages from the pipe.
class PipeReader {
  public:
    /// Reads available data. False: the other end is closed.
    bool receive(int pipe) {
        std::array<char, 65536> buffer;
        const ssize_t count = ::read(pipe, buffer.data(), buffer.size());
        if (count > 0) bytes_.append(buffer.data(), static_cast<std::size_t>(count));
        return count > 0 || (count < 0 && (errno == EINTR || errno == EAGAIN));
    }
    struct Message {
        char kind;
        std::string bytes;
    };
    std::optional<Message> next() {
        std::uint64_t size = 0;
        if (bytes_.size() < kHead) return std::nullopt;
        std::memcpy(&size, bytes_.data() + 1, sizeof size);
        if (bytes_.size() - kHead < size) return std::nullopt;
        Message message{bytes_[0], bytes_.substr(kHead, size)};
        bytes_.erase(0, kHead + size);
        return message;
    }

  private:
    static constexpr std::size_t kHead = 1 + sizeof(std::uint64_t);
    std::string bytes_;
};

/// Memory that parent and child share.
class SharedWatch {
  public:
    SharedWatch() {
        void* const memory =
            ::mmap(nullptr, sizeof(KernelWatch), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        watch_ = new (memory) KernelWatch;
    }
    ~SharedWatch() { ::munmap(watch_, sizeof(KernelWatch)); }
    SharedWatch(const SharedWatch&) = delete;
    SharedWatch& operator=(const SharedWatch&) = delete;
    KernelWatch& operator*() const { return *watch_; }

  private:
    KernelWatch* watch_;
};

/// The limit on the time of a child. What comes before the first kernel counts, since large tensors take minutes to fill. But
/// how long little work takes depends on the machine's load: it may take kToStart whatever the limit, and
/// leaves the kernels as much.
class Deadline {
  public:
    Deadline(KernelWatch& watch, std::chrono::duration<double> limit)
        : watch_(watch),
          begin_(Clock::now()),
          limit_(std::chrono::duration_cast<Clock::duration>(
              std::min<std::chrono::duration<double>>(limit, std::chrono::hours(24 * 365)))) {}

    /// Not positive: the time is over.
    Clock::duration left() const {
        const Clock::time_point now = Clock::now();
        if (const std::int64_t begin_ns = watch_.begin_ns.load(); begin_ns != 0)
            return std::max(begin_ + limit_, Clock::time_point(std::chrono::nanoseconds(begin_ns)) +
                                                 std::min<Clock::duration>(limit_, kToStart)) -
                   now;
        return begin_ + std::max<Clock::duration>(limit_, kToStart) - now;
    }

  private:
    const KernelWatch& watch_;
    const Clock::time_point begin_;
    const Clock::duration limit_;
};

/// Sets up the child: it does not outlive its parent, has the default signal handlers, and its standard output is the
/// standard error, since the program's standard output is its report.
void settle_in_child(pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(EXIT_FAILURE);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
    if (const int empty = ::open("/dev/null", O_RDONLY | O_CLOEXEC); empty >= 0) {
        ::dup2(empty, STDIN_FILENO);
        ::close(empty);
    }
}

[[noreturn]] void be_child(int pipe, pid_t parent, KernelWatch& watch,
                           const std::function<std::string(const ReportPhase&)>& work) {
    settle_in_child(parent);
    // If a kernel forks, both processes would continue from here.
    ::pthread_atfork(nullptr, nullptr, [] { ::_exit(EXIT_FAILURE); });
    watch_kernels(watch);
    bool sent = false;
    try {
        const std::string result = work([&](std::string_view phase) { send(pipe, kPhase, phase); });
        sent = send(pipe, kResult, result);
    } catch (const std::exception& error) {
        sent = send(pipe, kError, wire::written(text_of(error)));
    } catch (...) {
        sent = send(pipe, kError, wire::written(ErrorText{{}, "an unknown exception"}));
    }
    std::fflush(stdout);
    ::_exit(sent ? EXIT_SUCCESS : EXIT_FAILURE);
}

/// A child process; the destructor kills and reaps it.
class Child {
  public:
    explicit Child(pid_t id) : id_(id) {}
    ~Child() { kill(); }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    void ask() const { ::kill(id_, kWatchSignal); }
    void kill() {
        if (reaped_) return;
        ::kill(id_, SIGKILL);
        reap(0);
    }
    bool has_ended() { return reap(WNOHANG); }
    const ProcessEnd& end() const { return end_; }

  private:
    bool reap(int flags) {
        while (!reaped_) {
            int status = 0;
            const pid_t waited = ::waitpid(id_, &status, flags);
            if (waited < 0 && errno == EINTR) continue;
            if (waited == 0) return false;
            reaped_ = true;
            end_.is_known = waited > 0;
            if (waited > 0 && WIFEXITED(status)) end_.exit_status = WEXITSTATUS(status);
            if (waited > 0 && WIFSIGNALED(status)) end_.signal = WTERMSIG(status);
        }
        return true;
    }

    const pid_t id_;
    bool reaped_ = false;
    ProcessEnd end_;
};

/// Requests call stacks of the child's threads until one is in a kernel. A thread that calls an observer is
/// not in the kernel for a moment.
void ask_threads(Child& child, KernelWatch& watch) {
    constexpr int kNap = 5000;  // microseconds
    auto until = Clock::now() + kFirstAnswer;
    for (bool has_answered = false; Clock::now() < until && !child.has_ended();) {
        child.ask();
        ::usleep(kNap);
        if (std::ranges::any_of(watch.seen, leads_to_kernel)) return;
        for (KernelReport& report : watch.seen) {
            int whole = 2;
            if (!report.state.compare_exchange_strong(whole, 0) || has_answered) continue;
            has_answered = true;
            until = std::min(until, Clock::now() + kAnswer);
        }
    }
    ::usleep(kNap);
}

}  // namespace

bool isolates(const Service& service) {
    return service.options().isolate_host && service.backend() == Backend::host && !is_launch_child() &&
           !config::host_in_process();
}

inline namespace KILN_ABI {

std::string launch_apart(const Service& service, const std::string& kernel, const ReportPhase& on_phase,
                         const std::function<std::string(const ReportPhase&)>& work) {
    if (isolates(service)) return in_child(service, kernel, on_phase, work);
    return work(on_phase ? on_phase : [](std::string_view) {});
}

}  // namespace KILN_ABI

std::string in_child(const Service& service, const std::string& kernel, const ReportPhase& on_phase,
                     const std::function<std::string(const ReportPhase&)>& work) {
    const SharedWatch watch;
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        throw DeviceError(
            "No pipe for a child process could be made: " + std::string(std::strerror(errno)) + ".", "pipe",
            errno);
    FileDescriptor from_child(ends[0]), to_parent(ends[1]);
    // Otherwise buffered output would be written twice.
    std::fflush(stdout);
    std::fflush(stderr);
    const pid_t parent = ::getpid(), id = fork_to_launch();
    if (id < 0)
        throw DeviceError("The process in which kernels run could not be started: " +
                              std::string(std::strerror(errno)) + ".",
                          "fork", errno);
    if (id == 0) be_child(to_parent.value(), parent, *watch, work);

    Child child(id);
    to_parent.reset();
    const std::chrono::duration<double> limit = service.options().host_time_limit;
    const Deadline deadline(*watch, limit);
    PipeReader inbox;
    std::string phase;
    const auto throw_time_over = [&] {
        if ((*watch).begin_ns.load() != 0) ask_threads(child, *watch);
        child.kill();
        throw DeviceError(kernel_timeout_text(*watch, limit.count(), kernel, phase), "launch");
    };
    for (bool is_open = true; is_open;) {
        if (service.options().stop.stop_requested())
            throw DeviceError("The launch of kernel " + kernel + " was stopped on request.", "launch");
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left());
        const auto nap = std::clamp(left, std::chrono::milliseconds(0), kPoll);
        pollfd polled{from_child.value(), POLLIN, 0};
        const bool has_sent = ::poll(&polled, 1, static_cast<int>(nap.count())) > 0;
        // Where this process had no processor for a while, the child has sent in time what is only now read.
        if (left.count() <= 0 && (!has_sent || left < -kToStart)) throw_time_over();
        if (has_sent)
            is_open = inbox.receive(from_child.value());
        else if (child.has_ended())  // and a grandchild keeps the pipe open
            is_open = false;
        while (auto message = inbox.next()) {
            if (message->kind == kPhase && !message->bytes.starts_with(kRemark)) phase = message->bytes;
            if (message->kind == kPhase && on_phase) on_phase(message->bytes);
            if (message->kind == kResult) return std::move(message->bytes);
            if (message->kind == kError) throw_again(wire::read<ErrorText>(message->bytes));
        }
    }
    // A running kernel may have closed the pipe.
    while (!child.has_ended()) {
        if (deadline.left().count() <= 0) throw_time_over();
        ::usleep(5000);
    }
    throw DeviceError(kernel_failure_text(*watch, child.end(), kernel), "launch");
}

}  // namespace kiln
