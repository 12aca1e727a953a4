// SPDX-License-Identifier: Apache-2.0
//
// hipRTC, always in a worker: this side finds the library, asks the worker, and turns the answer into a
// Binary or a BuildError.
#include <kiln/error.h>

#include <utility>

#include "base/arch_facts.h"
#include "base/config.h"
#include "base/dynamic_library.h"
#include "base/stopwatch.h"
#include "base/words.h"
#include "compile/compile_options.h"
#include "compile/compile_protocol.h"
#include "compile/compiler.h"
#include "compile/invocation.h"
#include "compile/library_search.h"
#include "compile/loaded_objects.h"
#include "format/format.h"

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

// The libraries that it opens by itself and that take part in compiling: those next to it, and those that the loader
// takes for their names. The device libraries (ockl, ocml and so on) are inside libamd_comgr; those in amdgcn/bitcode
// are for other compilers and are not read.
void add_with_companions(const fs::path& library, CompilerObjects& objects) {
    std::vector<std::string> names;
    std::error_code error;
    for (const char* stem : {"libhiprtc-builtins.so", "libamd_comgr.so"}) {
        for (const char* version : {".8", ".7", ".6", ".5", ".4", ".3", ".2"})
            names.push_back(stem + std::string(version));
    }
    objects.add(library, names);
    for (const auto& name : names)
        if (fs::is_regular_file(library.parent_path() / name, error))
            objects.add(library.parent_path() / name);
}

class Hiprtc final : public Compiler {
  public:
    Hiprtc(std::shared_ptr<WorkerPool> workers, SharedMemory memory)
        : workers_(std::move(workers)), memory_(std::move(memory)) {}

    CompilerIngredients ingredients() override { return {located().identity, {}, {}}; }
    std::vector<std::string> options(const Target& target, const Source& source) override {
        CompileOptions given = compile_options(target, source);
        std::vector<std::string> options = {"--offload-arch=" + target.arch, "-std=" + given.standard,
                                            given.debug ? "-O0" : "-O3"};
        if (given.debug) options.emplace_back("-g");
        for (std::string& one : given.others) options.push_back(std::move(one));
        return options;
    }
    std::string description() override {
        const Located library = located();
        return library.product + ", " + library.file.string();
    }
    std::vector<fs::path> include_directories() override;
    std::vector<std::string> supported_archs() override {
        const Located library = located();
        return ask(library, {}, library.product).supported_archs;
    }

  private:
    struct Located {
        fs::path file;
        std::string build;  // its elf_identity()
        std::string identity;
        std::string product;  // "hipRTC (libamdhip64.so.5.2.21153, build 1a2b3c4d)"
    };

    Binary compile_as(const CompilerIngredients& as, const Source& source, const Target& target,
                      const CompilePlace& place) override;
    Located located();
    CompileResponse ask(const Located& library, CompileRequest request, const std::string& what,
                        const std::stop_token& stop = {});

    const std::shared_ptr<WorkerPool> workers_;
    const SharedMemory memory_;
};

Hiprtc::Located Hiprtc::located() {
    const LibrarySearch search = hiprtc_search();
    const auto file = search.find();
    if (!file) throw BuildError(search.not_found_message());
    const auto found = memory_->ask(
        formatted("hiprtc {} {} {}", kHiprtcInvocation, file->string(), search_environment()),
        [&]() -> IdentityMemory::Answer {
            const auto build = elf_identity(*file);
            if (!build)
                throw BuildError("The hipRTC library " + file->string() +
                                 " can't be read or is no ELF library.");
            CompilerObjects objects(CompilerKind::hiprtc);
            add_with_companions(*file, objects);
            auto watched = objects.watched();
            watched.push_back(file->parent_path());  // companions may come, or go
            return {{*build, "hiprtc " + objects.identity() + " " + std::string(kHiprtcInvocation)},
                    std::move(watched)};
        });
    std::error_code error;
    const auto real_file = fs::canonical(*file, error);
    return {*file, found[0], found[1],
            "hipRTC (" + real_file.filename().string() + ", build " + short_build(found[0]) + ")"};
}

// ROCm's own; not /usr/include, where distributions put it among everything else.
std::vector<fs::path> Hiprtc::include_directories() {
    std::error_code error;
    std::vector<fs::path> directories;
    if (const auto library = hiprtc_search().find())
        directories.push_back(fs::canonical(*library, error).parent_path().parent_path() / "include");
    directories.emplace_back("/opt/rocm/include");
    std::erase_if(directories, [&](const fs::path& one) {
        return !fs::is_directory(one, error) || one == "/usr/include";
    });
    return directories;
}

CompileResponse Hiprtc::ask(const Located& library, CompileRequest request, const std::string& what,
                            const std::stop_token& stop) {
    request.product = RuntimeProduct::hiprtc;
    request.library = library.file.string();
    request.build = library.build;
    auto response = workers_->run(
        request, what, std::string("hipRTC does that on an architecture it does not know; ") + kWorkingArchs,
        stop);
    if (response.status == CompileStatus::unusable_library)
        throw BuildError("The hipRTC library " + library.file.string() + " can't be used." +
                             memory_note(workers_->limits()),
                         response.log);
    return response;
}

// hipRTC never compiles in this process.
Binary Hiprtc::compile_as(const CompilerIngredients&, const Source& source, const Target& target,
                          const CompilePlace& place) {
    if (!is_hip_arch_name(target.arch))
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
    auto response = ask(library, std::move(request), what, place.stop);
    if (response.status == CompileStatus::unsupported_arch)
        throw BuildError(what + ": it does not know this architecture. It compiles for " +
                         enumerate(response.supported_archs) + ".");
    if (response.status != CompileStatus::ok)
        throw BuildError(library.product + " could not compile " + source.file_name + " for " + target.arch +
                             ": " + response.error + ".",
                         response.log);
    // A kernel's descriptor in a code object is the symbol <name>.kd.
    for (const std::string& entry : response.entries)
        if (response.binary.find(entry + ".kd") == std::string::npos)
            throw BuildError(source.file_name + " has no kernel named \"" + entry +
                                 "\": it must be declared extern \"C\" __global__.",
                             response.log);
    Binary binary;
    binary.kind = BinaryKind::code_object;
    set_entries(binary, std::move(response.entries));
    binary.bytes = take_binary(response);
    binary.log = std::move(response.log);
    binary.compiler = library.product;
    binary.compile_ms = watch.elapsed_ms();
    return binary;
}

}  // namespace

std::unique_ptr<Compiler> make_hiprtc_compiler(std::shared_ptr<WorkerPool> workers, SharedMemory memory) {
    return std::make_unique<Hiprtc>(std::move(workers), std::move(memory));
}

}  // namespace kiln
