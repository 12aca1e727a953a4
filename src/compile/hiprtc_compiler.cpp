// SPDX-License-Identifier: Apache-2.0
//
// hipRTC, always in a worker: this side finds the library, asks the worker, and turns the answer into a
// Binary or a BuildError.
#include <kiln/error.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/config.h"
#include "base/dynamic_library.h"
#include "base/stopwatch.h"
#include "base/words.h"
#include "compile/compile_protocol.h"
#include "compile/compiler.h"
#include "compile/library_search.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

// How Kiln calls hipRTC, a part of the identity: it changes when the bytes may.
constexpr std::string_view kInvocation = "kiln-compile-1";
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

// The libraries beside it that take part in compiling. The device libraries (ockl, ocml and so on) are inside
// libamd_comgr; those in amdgcn/bitcode are for other compilers and are not read.
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

class Hiprtc final : public Compiler {
  public:
    explicit Hiprtc(std::shared_ptr<WorkerPool> workers) : workers_(std::move(workers)) {}

    std::string identity() override { return located().identity; }
    std::vector<std::string> options(const Target& target, const Source&) override {
        return {"--offload-arch=" + target.arch, "-std=c++17", "-O3"};
    }
    Binary compile(const Source& source, const Target& target, Isolation isolation) override;
    std::string description() override {
        const Located library = located();
        return library.product + ", " + library.file.string();
    }
    std::vector<std::string> supported_archs() override {
        const Located library = located();
        return ask(library, {}, library.product).supported_archs;
    }

  private:
    struct Located {
        fs::path file;
        std::string stamp;
        std::string build;  // its elf_identity()
        std::string identity;
        std::string product;  // "hipRTC (libamdhip64.so.5.2.21153, build 1a2b3c4d)"
    };

    Located located();
    CompileResponse ask(const Located& library, CompileRequest request, const std::string& what);

    const std::shared_ptr<WorkerPool> workers_;
    std::mutex mutex_;
    std::optional<Located> located_;
};

Hiprtc::Located Hiprtc::located() {
    const std::lock_guard lock(mutex_);
    if (located_ && located_->stamp == files_stamp({located_->file})) return *located_;
    const LibrarySearch search = hiprtc_search();
    const auto file = search.find();
    if (!file) throw BuildError(search.not_found_message());
    const std::string stamp = files_stamp({*file});
    const auto id = elf_identity(*file);
    if (!id)
        throw BuildError("The hipRTC library " + file->string() + " can't be read or is no ELF library.");
    std::error_code error;
    const auto real_file = fs::canonical(*file, error);
    located_ =
        Located{*file, stamp, *id,
                "hiprtc " + *id + companions_identity(file->parent_path()) + " " + std::string(kInvocation),
                "hipRTC (" + real_file.filename().string() + ", build " + short_build(*id) + ")"};
    return *located_;
}

CompileResponse Hiprtc::ask(const Located& library, CompileRequest request, const std::string& what) {
    request.product = RuntimeProduct::hiprtc;
    request.library = library.file.string();
    request.build = library.build;
    auto response = workers_->run(
        request, what, std::string("hipRTC does that on an architecture it does not know; ") + kWorkingArchs);
    if (response.status == CompileStatus::unusable_library)
        throw BuildError("The hipRTC library " + library.file.string() + " can't be used." +
                             memory_note(workers_->limits()),
                         response.log);
    return response;
}

// hipRTC never compiles in this process.
Binary Hiprtc::compile(const Source& source, const Target& target, Isolation) {
    if (!is_gfx_arch(target.arch))
        throw BuildError("\"" + target.arch +
                         "\" is not the name of an AMD architecture, which looks like gfx90a, gfx1030 or "
                         "gfx90a:xnack-; " +
                         kWorkingArchs);
    const Stopwatch watch;
    const Located library = located();
    CompileRequest request;
    request.wanted = Wanted::binary;
    request.arch = target.arch;
    request.options = options(target, source);
    request.source = source;
    const std::string what = library.product + " compiling " + source.file_name + " for " + target.arch;
    auto response = ask(library, std::move(request), what);
    if (response.status == CompileStatus::unsupported_arch)
        throw BuildError(what + ": it does not know this architecture. It compiles for " +
                         enumerate(response.supported_archs) + ".");
    if (response.status != CompileStatus::ok)
        throw BuildError(library.product + " could not compile " + source.file_name + " for " + target.arch +
                             ": " + response.error + ".",
                         response.log);
    // A kernel's descriptor in a code object is the symbol <name>.kd.
    if (response.binary.find(source.entry + ".kd") == std::string::npos)
        throw BuildError(source.file_name + " has no kernel named \"" + source.entry +
                             "\": it must be declared extern \"C\" __global__.",
                         response.log);
    Binary binary;
    binary.kind = BinaryKind::code_object;
    binary.entry = source.entry;
    binary.bytes = take_binary(response);
    binary.log = std::move(response.log);
    binary.compiler = library.product;
    binary.compile_ms = watch.elapsed_ms();
    return binary;
}

}  // namespace

std::unique_ptr<Compiler> make_hiprtc_compiler(std::shared_ptr<WorkerPool> workers) {
    return std::make_unique<Hiprtc>(std::move(workers));
}

}  // namespace kiln
