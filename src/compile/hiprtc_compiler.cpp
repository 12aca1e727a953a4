// SPDX-License-Identifier: Apache-2.0
//
// hipRTC in a child process per compile: this side finds the library and the worker program, sends the
// request, and turns whatever becomes of the child into a Binary or a BuildError.
#include <kiln/error.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "base/config.h"
#include "base/dynamic_library.h"
#include "base/file.h"
#include "base/process.h"
#include "base/stopwatch.h"
#include "base/words.h"
#include "compile/compile_protocol.h"
#include "compile/compiler.h"
#include "compile/library_search.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

constexpr const char* kWorkingArchs = "gfx906, gfx908, gfx90a and gfx1030 are known to work.";

LibrarySearch hiprtc_search() {
    LibrarySearch search;
    search.product = "hipRTC";
    search.variable = "KILN_HIPRTC";
    search.chosen = config::hiprtc_library();
    // Up to ROCm 5.2 hipRTC is a part of libamdhip64.
    search.names = {"libhiprtc.so.7", "libhiprtc.so.6",   "libhiprtc.so.5",
                    "libhiprtc.so",   "libamdhip64.so.6", "libamdhip64.so.5"};
    search.remedy =
        "Install ROCm (on Debian and Ubuntu: apt-get install libamdhip64-dev rocm-device-libs "
        "libhiprtc-builtins5), or set KILN_HIPRTC to the library.";
    search.directories = config::library_path();
    search.directories.emplace_back("/opt/rocm/lib");
    for (const auto& rocm : versioned_directories("/opt", "rocm-"))
        search.directories.push_back(rocm / "lib");
    for (const char* directory : {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"})
        search.directories.emplace_back(directory);
    return search;
}

// The libraries beside it that take part in compiling.
std::string companions_identity(const fs::path& directory) {
    std::string identity;
    for (const char* stem : {"libhiprtc-builtins.so", "libamd_comgr.so"}) {
        for (const char* version : {".7", ".6", ".5", ".3", ".2"}) {
            if (auto id = elf_identity(directory / (std::string(stem) + version)))
                identity += std::string(" ") + stem + version + " " + *id;
        }
    }
    return identity;
}

// "gfx90a", "gfx90a:sramecc+:xnack-".
bool is_gfx_arch(std::string_view text) {
    const auto processor = text.substr(0, text.find(':'));
    if (!processor.starts_with("gfx") || processor.size() < 6 || processor.size() > 8) return false;
    const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    if (!std::all_of(processor.begin() + 3, processor.end(), is_hex)) return false;
    for (text.remove_prefix(processor.size()); !text.empty();) {
        text.remove_prefix(1);  // the colon
        const auto feature = text.substr(0, text.find(':'));
        if (feature != "xnack+" && feature != "xnack-" && feature != "sramecc+" && feature != "sramecc-")
            return false;
        text.remove_prefix(feature.size());
    }
    return true;
}

fs::path find_worker() {
    constexpr const char* kName = "kiln-compile-worker";
    std::error_code error;
    if (const auto chosen = config::compile_worker()) {
        if (fs::is_regular_file(*chosen, error)) return fs::absolute(*chosen);
        throw BuildError("KILN_COMPILE_WORKER is set to \"" + chosen->string() +
                         "\", which is no file. Set it to the program kiln-compile-worker, or unset it.");
    }
    const fs::path own = own_directory();
    std::vector<std::string> places;
    for (const char* relative : {".", "../bin", "../libexec/kiln", "../../libexec/kiln"}) {
        const fs::path directory = (own / relative).lexically_normal();
        if (fs::is_regular_file(directory / kName, error)) return directory / kName;
        places.push_back(directory.string());
    }
    throw BuildError(std::string("The program ") + kName + ", in which Kiln runs hipRTC, is not in " +
                     enumerate(places) +
                     ". Install Kiln as a whole, or set KILN_COMPILE_WORKER to the program.");
}

// The library writes headers below `scratch`, in a directory of its own ("comgr-1f2e3d/include/"): the log
// gets their virtual names back.
std::string with_virtual_names(std::string log, const fs::path& scratch) {
    const std::string prefix = scratch.string() + "/";
    for (std::size_t at = 0; (at = log.find(prefix, at)) != std::string::npos;) {
        std::size_t end = at + prefix.size();
        for (const std::string_view folder : {"/include/", "/input/"}) {
            const auto position = log.find(folder, end);
            if (position < log.find_first_of(" \n", end)) end = position + folder.size();
        }
        log.erase(at, end - at);
    }
    return log;
}

std::string tail(std::string text) {
    constexpr std::size_t kTailBytes = 4000;
    if (text.size() > kTailBytes) text = "..." + text.substr(text.size() - kTailBytes);
    return text;
}

class Hiprtc final : public Compiler {
  public:
    Hiprtc(std::chrono::milliseconds timeout, std::stop_token stop)
        : timeout_(timeout), stop_(std::move(stop)) {}

    std::string identity() override { return located().identity; }
    std::vector<std::string> options(const Target& target) override {
        return {"--offload-arch=" + target.arch, "-std=c++17", "-O3"};
    }
    Binary compile(const Source& source, const Target& target) override;
    std::string description() override;
    std::vector<std::string> supported_archs() override {
        return ask({located().file, {}, {}, {}}).supported_archs;
    }

  private:
    struct Located {
        fs::path file;
        std::string identity;
        std::string product;  // "hipRTC (libamdhip64.so.5.2.21153, build 1a2b3c4d)"
    };

    const Located& located();
    /// Sends the request to a new worker. Throws BuildError when no response comes back.
    CompileResponse ask(const CompileRequest& request);

    const std::chrono::milliseconds timeout_;
    const std::stop_token stop_;
    std::mutex mutex_;
    std::optional<Located> located_;
};

const Hiprtc::Located& Hiprtc::located() {
    const std::lock_guard lock(mutex_);
    if (located_) return *located_;
    const LibrarySearch search = hiprtc_search();
    const auto file = search.find();
    if (!file) throw BuildError(search.not_found_message());
    const auto id = elf_identity(*file);
    if (!id)
        throw BuildError("The hipRTC library " + file->string() + " can't be read or is no ELF library.");
    std::error_code error;
    const auto real_file = fs::canonical(*file, error);
    located_ = Located{
        *file,
        "hiprtc " + *id + companions_identity(file->parent_path()) + " " + std::string(kCompileProtocol),
        "hipRTC (" + real_file.filename().string() + ", build " + short_build(*id) + ")"};
    return *located_;
}

std::string Hiprtc::description() { return located().product + ", " + located().file.string(); }

CompileResponse Hiprtc::ask(const CompileRequest& request) {
    const TemporaryDirectory scratch;  // the library's own temporary files go here, to go away with it
    ProcessRequest process;
    process.arguments = {find_worker().string()};
    process.input = encode(request);
    process.directory = scratch.path();
    process.timeout = timeout_;
    process.stop = stop_;
    process.environment = {{"TMPDIR", scratch.path().string()}};
    // These change what is compiled, past the key.
    process.unset_environment = {"HIPRTC_COMPILE_OPTIONS_APPEND",
                                 "HIPRTC_LINK_OPTIONS_APPEND",
                                 "AMD_COMGR_SAVE_TEMPS",
                                 "AMD_COMGR_REDIRECT_LOGS",
                                 "AMD_COMGR_EMIT_VERBOSE_LOGS",
                                 "CPATH",
                                 "C_INCLUDE_PATH",
                                 "CPLUS_INCLUDE_PATH"};
    const ProcessResult result = run_process(process);

    const std::string what =
        request.source.text.empty()
            ? located().product
            : located().product + " compiling " + request.source.file_name + " for " + request.arch;
    if (!result.succeeded()) {
        std::string message = what + ": the worker process " + result.how_it_ended(timeout_) + ".";
        if (result.signal != 0 && !result.timed_out)
            message += std::string(" hipRTC does that on an architecture it does not know; ") + kWorkingArchs;
        throw BuildError(message, tail(result.error));
    }
    auto response = decode_response(result.output);
    if (!response)
        throw BuildError(what + ": the worker process " + process.arguments[0] +
                             " ended well, but gave no complete response (" +
                             std::to_string(result.output.size()) +
                             " bytes). It may belong to another version of Kiln.",
                         tail(result.error));
    response->log = with_virtual_names(std::move(response->log), scratch.path());
    if (response->status == CompileStatus::unusable_library)
        throw BuildError("The hipRTC library " + located().file.string() + " can't be used.", response->log);
    if (response->status == CompileStatus::unsupported_arch)
        throw BuildError(what + ": it does not know this architecture. It compiles for " +
                         enumerate(response->supported_archs) + ".");
    if (response->status == CompileStatus::refused)
        throw BuildError(located().product + " could not compile " + request.source.file_name + " for " +
                             request.arch + ".",
                         response->log);
    return std::move(*response);
}

Binary Hiprtc::compile(const Source& source, const Target& target) {
    if (!is_gfx_arch(target.arch))
        throw BuildError("\"" + target.arch +
                         "\" is not the name of an AMD architecture, which looks like gfx90a, gfx1030 or "
                         "gfx90a:xnack-; " +
                         kWorkingArchs);
    const Stopwatch watch;
    auto response = ask({located().file.string(), target.arch, options(target), source});
    // A kernel's descriptor in a code object is the symbol <name>.kd.
    if (response.binary.find(source.entry + ".kd") == std::string::npos)
        throw BuildError(source.file_name + " has no kernel named \"" + source.entry +
                             "\": it must be declared extern \"C\" __global__.",
                         response.log);
    Binary binary;
    binary.kind = BinaryKind::code_object;
    binary.entry = source.entry;
    const auto* data = reinterpret_cast<const std::byte*>(response.binary.data());
    binary.bytes.assign(data, data + response.binary.size());
    binary.log = std::move(response.log);
    binary.compiler = located().product;
    binary.compile_ms = watch.elapsed_ms();
    return binary;
}

}  // namespace

std::unique_ptr<Compiler> make_hiprtc_compiler(std::chrono::milliseconds timeout, std::stop_token stop) {
    return std::make_unique<Hiprtc>(timeout, std::move(stop));
}

}  // namespace kiln
