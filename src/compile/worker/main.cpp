// SPDX-License-Identifier: Apache-2.0
//
// kiln-compile-worker: reads requests from standard input, compiles each, and writes the responses to
// standard output, until the input ends. Its argument is the directory of its temporary files. Kiln starts
// it; it is of no use by hand.
#include <fcntl.h>
#include <kiln/error.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/dynamic_library.h"
#include "base/file.h"
#include "compile/compile_protocol.h"
#include "compile/nvrtc_api.h"
#include "compile/nvrtc_program.h"
#include "compile/worker/hiprtc_api.h"
#include "compile/worker/hiprtc_program.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// The library's own clean-up at exit has nothing to give and may crash. The directory is removed by the
// parent too, but a killed one can't.
[[noreturn]] void leave(int status, const fs::path& scratch) {
    std::fflush(nullptr);
    std::error_code ignored;
    if (scratch.filename().string().starts_with("kiln-")) fs::remove_all(scratch, ignored);
    ::_exit(status);
}

// Nobody waits for an answer once the other end of standard input is closed, as it is when the parent has
// died. PR_SET_PDEATHSIG would not do: it fires when the thread ends that started this process, which may be
// any caller's. A copy of the other end may live on in a process that the parent forked; then the parent's
// end shows in the parent's number.
void end_with_parent(const fs::path& scratch) {
    constexpr int kLookMs = 1000;
    const pid_t parent = ::getppid();
    for (;;) {
        pollfd input{STDIN_FILENO, 0, 0};
        (void)::poll(&input, 1, kLookMs);
        if ((input.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0 || ::getppid() != parent) leave(0, scratch);
    }
}

// Whether nothing comes for a while: a request, or the end of the input behind the last one.
bool is_idle() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    return ::poll(&input, 1, static_cast<int>(kIdleBeforePrecompiling.count())) == 0;
}

// The next message, or what there is of one when the input ends or breaks.
std::string read_message(int fd) {
    std::string text;
    std::array<char, 65536> buffer;
    while (arrival(text) == Arrival::partial) {
        const ssize_t count = ::read(fd, buffer.data(), buffer.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        text.append(buffer.data(), static_cast<std::size_t>(count));
    }
    return text;
}

// The one runtime compiler of this process, opened at the first request.
class Runtime {
  public:
    explicit Runtime(fs::path scratch) : scratch_(std::move(scratch)) {}

    /// What the response to a request promised.
    void precompile_headers(const CompileRequest& request) {
        try {
            if (nvrtc_) precompile(*nvrtc_, request, precompiled_);
        } catch (const std::exception&) {
            // Compiles go on without.
        }
    }

    CompileResponse respond(const CompileRequest& request) {
        CompileResponse response;
        try {
            if (!nvrtc_ && !hiprtc_) open(request);
            if (request.library != library_)
                throw BuildError("This worker process serves " + library_ + " and not " + request.library +
                                 ".");
            if (request.build != build_)
                throw BuildError(library_ + " was replaced by another build a moment ago. Try again.");
            return nvrtc_ ? answer(*nvrtc_, request, precompiled_) : answer(*hiprtc_, request, scratch_);
        } catch (const BuildError& error) {
            response.status = CompileStatus::unusable_library;
            response.log = error.what();
        } catch (const std::bad_alloc&) {
            response.status = CompileStatus::out_of_memory;
        }
        return response;
    }

  private:
    void open(const CompileRequest& request) {
        std::string error;
        if (request.product == RuntimeProduct::nvrtc) {
            auto library = DynamicLibrary::open({request.library}, &error);
            if (!library) throw BuildError(error);
            nvrtc_ = NvrtcApi::open(std::move(library));
        } else if (HiprtcApi api; api.open(request.library, error)) {
            hiprtc_ = std::move(api);
        } else {
            throw BuildError(error);
        }
        library_ = request.library;
        build_ = elf_identity(library_).value_or("");
    }

    const fs::path scratch_;
    std::string library_;
    std::string build_;  // its elf_identity()
    std::optional<NvrtcApi> nvrtc_;
    PrecompiledHeaders precompiled_;
    std::optional<HiprtcApi> hiprtc_;
};

int run(const fs::path& scratch) {
    const rlimit no_core{0, 0};  // of a library that is known to abort
    ::setrlimit(RLIMIT_CORE, &no_core);
    // The library prints; only responses may reach the real standard output.
    const FileDescriptor real_output(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    if (!real_output || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 1;
    std::thread(end_with_parent, scratch).detach();

    Runtime runtime(scratch);
    for (bool first = true;; first = false) {
        const std::string message = read_message(STDIN_FILENO);
        if (message.empty() && !first) leave(0, scratch);
        const auto request = decode_request(message);
        if (!request) {
            std::fputs(
                "kiln-compile-worker: no complete request on standard input; Kiln starts this program.\n",
                stderr);
            leave(2, scratch);
        }
        const CompileResponse response = runtime.respond(*request);
        const std::string text = encode(response);
        if (!write_all(real_output.value(), std::as_bytes(std::span(text)))) leave(1, scratch);
        if (response.precompiles && is_idle()) runtime.precompile_headers(*request);
    }
}

}  // namespace
}  // namespace kiln

int main(int count, char** arguments) { return kiln::run(count > 1 ? arguments[1] : ""); }
