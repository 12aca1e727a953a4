// SPDX-License-Identifier: Apache-2.0
//
// kiln-compile-worker: reads one request from standard input, compiles it with hipRTC, writes one response
// to standard output, and ends. A process of its own because hipRTC aborts on what it does not know and
// does not stand two compiling threads. Kiln starts it; it is of no use by hand.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <span>
#include <utility>

#include "base/file.h"
#include "compile/compile_protocol.h"
#include "compile/worker/hiprtc_api.h"

namespace kiln {
namespace {

std::string read_all(int fd) {
    std::string text;
    std::array<char, 65536> buffer;
    for (;;) {
        const ssize_t count = ::read(fd, buffer.data(), buffer.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return text;
        text.append(buffer.data(), static_cast<std::size_t>(count));
    }
}

class Program {
  public:
    Program(const HiprtcApi& api, const Source& source) : api_(api) {
        std::vector<const char*> texts, names;
        for (const auto& header : source.headers) {
            texts.push_back(header.text.c_str());
            names.push_back(header.name.c_str());
        }
        result_ = api_.create_program(&program_, source.text.c_str(), source.file_name.c_str(),
                                      static_cast<int>(texts.size()), texts.data(), names.data());
    }
    ~Program() {
        if (program_ != nullptr) api_.destroy_program(&program_);
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    void compile(const std::vector<std::string>& options) {
        std::vector<const char*> pointers;
        for (const auto& option : options) pointers.push_back(option.c_str());
        if (result_ == kHiprtcSuccess)
            result_ = api_.compile_program(program_, static_cast<int>(pointers.size()), pointers.data());
    }
    std::string log() const {
        std::size_t bytes = 0;
        if (program_ == nullptr || api_.log_size(program_, &bytes) != kHiprtcSuccess) return {};
        std::string text(bytes, '\0');
        if (bytes > 0 && api_.log(program_, text.data()) != kHiprtcSuccess) return {};
        text.resize(std::min(text.size(), text.find('\0')));
        return text;
    }
    std::string code() {
        std::size_t bytes = 0;
        if (result_ == kHiprtcSuccess) result_ = api_.code_size(program_, &bytes);
        std::string text(bytes, '\0');
        if (result_ == kHiprtcSuccess) result_ = api_.code(program_, text.data());
        return text;
    }
    bool failed() const { return result_ != kHiprtcSuccess; }
    const char* error() const { return api_.error_string(result_); }

  private:
    const HiprtcApi& api_;
    HiprtcProgram program_ = nullptr;
    HiprtcResult result_ = kHiprtcSuccess;
};

CompileResponse answer(const CompileRequest& request) {
    CompileResponse response;
    HiprtcApi api;
    if (!api.open(request.library, response.log)) {
        response.status = CompileStatus::unusable_library;
        return response;
    }
    int major = 0, minor = 0;
    api.query_version(&major, &minor);
    response.version = std::to_string(major) + "." + std::to_string(minor);
    response.supported_archs = api.supported_archs();
    if (request.source.text.empty()) return response;

    const auto& archs = response.supported_archs;
    const std::string processor = request.arch.substr(0, request.arch.find(':'));  // "gfx90a:xnack+"
    if (!archs.empty() && std::find(archs.begin(), archs.end(), processor) == archs.end()) {
        response.status = CompileStatus::unsupported_arch;
        return response;
    }
    Program program(api, request.source);
    program.compile(request.options);
    response.log = program.log();
    response.binary = program.code();
    if (program.failed()) {
        response.status = CompileStatus::refused;
        if (response.log.empty()) response.log = program.error();
    }
    return response;
}

int run() {
    // No core files from a library that is known to abort, and no life after the parent's.
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The library prints; only the response may reach the real standard output.
    const FileDescriptor real_output(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    if (!real_output || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 1;

    const auto request = decode_request(read_all(STDIN_FILENO));
    if (!request) {
        std::fputs("kiln-compile-worker: no complete request on standard input; Kiln starts this program.\n",
                   stderr);
        return 2;
    }
    const std::string response = encode(answer(*request));
    const bool written = write_all(real_output.value(), std::as_bytes(std::span(response)));
    std::fflush(nullptr);
    // The library's own clean-up at exit has nothing to give and may crash.
    ::_exit(written ? 0 : 1);
}

}  // namespace
}  // namespace kiln

int main() { return kiln::run(); }
