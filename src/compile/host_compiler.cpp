// SPDX-License-Identifier: Apache-2.0
//
// The system's C++ compiler, run in a private directory that holds the source and its headers under their
// virtual names; the result is a shared object that exports kiln_host_kernel (kiln/host_abi.h).
#include <kiln/error.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <utility>

#include "base/config.h"
#include "base/digest.h"
#include "base/dynamic_library.h"
#include "base/file.h"
#include "base/host_arch.h"
#include "base/process.h"
#include "base/stopwatch.h"
#include "base/words.h"
#include "compile/compiler.h"
#include "compile/library_search.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

// Everything but -march and the files. No debug information and no build ID, so that equal input gives
// equal bytes on every machine; -z defs, so that a missing function is an error here, not at the load.
constexpr auto kOptions =
    std::to_array<const char*>({"-std=c++20", "-O3", "-ffp-contract=fast", "-fno-math-errno",
                                "-fno-trapping-math", "-fPIC", "-shared", "-fvisibility=hidden", "-g0",
                                // A large frame must hit the guard page below a fiber's
                                // stack, and not jump over it.
                                "-fstack-clash-protection", "-Wno-unknown-pragmas", "-Wno-attributes",
                                "-Wl,--build-id=none", "-Wl,--as-needed", "-Wl,-z,defs"});

// GCC's motion of loads and stores out of loops takes a thread's results apart, one register each, before anybody
// looks for vectors among them. Its later pass, over vector registers, moves them without that (the FP32 tile with
// 8 x 8 results per thread, VEC=4 and BK=64: 19 GFLOP/s with the former, 21 with neither, 30 with the latter).
constexpr auto kLateStoreMotion = std::to_array<const char*>({"-fno-tree-loop-im", "-fgcse-sm"});

// The same for kernels that tell of their accesses: instrumented for a thread sanitizer, whose functions the
// prelude has. One access in the source should stay one instruction, of the same width: nothing that takes
// structs apart, copies code, or joins accesses.
constexpr auto kRecordedOptions = std::to_array<const char*>(
    {"-std=c++20", "-O1", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared",
     // Lines, inlined calls and variables; options would be there too, and with them paths.
     "-fvisibility=hidden", "-g", "-gno-record-gcc-switches", "-DKILN_HOST_RECORD", "-fsanitize=thread",
     "-fno-unroll-loops", "-fno-tree-vectorize", "-fno-tree-slp-vectorize", "-fstack-clash-protection",
     "-Wno-unknown-pragmas", "-Wno-attributes", "-Wl,--build-id=none", "-Wl,--as-needed", "-Wl,-z,defs"});
constexpr auto kRecordedGccOptions =
    std::to_array<const char*>({"-fsanitize=bounds-strict", "-fno-tree-sra", "-fno-tree-ch",
                                "-fno-tree-loop-ivcanon", "-fno-thread-jumps", "-fno-store-merging",
                                "-fno-crossjumping", "-fno-tree-loop-distribute-patterns", "-nodefaultlibs"});
constexpr auto kRecordedClangOptions = std::to_array<const char*>(
    {"-fsanitize=array-bounds", "-fdebug-compilation-dir=.", "-mllvm", "-unroll-threshold=0", "-mllvm",
     "-pragma-unroll-threshold=0", "-mllvm", "-disable-loop-idiom-all", "-Wno-pass-failed"});
// What is linked by default, but for the sanitizers' libraries.
constexpr auto kRecordedGccLibraries =
    std::to_array<const char*>({"-lstdc++", "-lm", "-lgcc_s", "-lgcc", "-lc"});

// Linked before and behind the kernel: nothing lies beside its outermost shared variables either.
constexpr const char* kMarginInput = "kiln-margin.s";
constexpr const char* kMargin =
    "\t.section .tbss,\"awT\",%nobits\n\t.zero 16384\n\t.section .note.GNU-stack,\"\",%progbits\n";

// These change what is compiled, past the key.
constexpr auto kMeddlingVariables = std::to_array<const char*>(
    {"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX",
     "CCC_OVERRIDE_OPTIONS", "GNUTARGET", "LDEMULATION", "SOURCE_DATE_EPOCH", "DEPENDENCIES_OUTPUT",
     "SUNPRO_DEPENDENCIES", "GCC_COMPARE_DEBUG", "LD_RUN_PATH"});

#ifdef __x86_64__
constexpr bool kX86 = true;
#else
constexpr bool kX86 = false;
#endif

bool is_executable(const fs::path& path) {
    std::error_code error;
    return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

std::optional<fs::path> find_program(const std::string& name) {
    if (name.find('/') != std::string::npos)
        return is_executable(name) ? std::optional(fs::absolute(name)) : std::nullopt;
    for (const auto& directory : config::executable_path()) {
        if (is_executable(directory / name)) return fs::absolute(directory / name);
    }
    return std::nullopt;
}

fs::path find_compiler() {
    constexpr const char* kRemedy = " On Debian and Ubuntu: apt-get install g++";
    if (const auto chosen = config::host_cxx()) {
        if (auto path = find_program(*chosen)) return *path;
        throw BuildError("KILN_HOST_CXX is set to \"" + *chosen +
                         "\", which is no program here (give a path, or a name in PATH, without arguments). "
                         "Correct it, or unset it so that c++, g++ and clang++ are tried." +
                         kRemedy);
    }
    for (const char* name : {"c++", "g++", "clang++"}) {
        if (auto path = find_program(name)) return *path;
    }
    throw BuildError(
        std::string("The host backend needs a C++ compiler, and none of c++, g++ and clang++ is in PATH. "
                    "Install one, or set KILN_HOST_CXX to it.") +
        kRemedy);
}

// Writes a file under its virtual name, which must stay inside the directory.
void write_virtual(const fs::path& directory, const std::string& name, std::string_view text) {
    const fs::path relative(name);
    const bool climbs = std::find(relative.begin(), relative.end(), "..") != relative.end();
    const bool odd_start = name.find_first_of("-@") == 0;  // an option or a response file to the compiler
    if (name.empty() || relative.is_absolute() || climbs || odd_start || !relative.has_filename())
        throw BuildError(
            "The file name \"" + name +
            "\" can't be used: a header or source is named by a relative path without \"..\", such as "
            "kiln/device.h.");
    fs::create_directories((directory / relative).parent_path());
    write_text(directory / relative, text);
}

// The program of a line that -### prints for a command: a space, then the words, in quotes with Clang.
std::optional<fs::path> program_of_command(std::string_view line) {
    if (!line.starts_with(' ')) return std::nullopt;
    line.remove_prefix(1);
    const bool quoted = line.starts_with('"');
    if (quoted) line.remove_prefix(1);
    return find_program(std::string(line.substr(0, line.find(quoted ? '"' : ' '))));
}

std::string without(std::string text, const std::string& part) {
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos;) text.erase(at, part.size());
    return text;
}

class HostCompiler final : public Compiler {
  public:
    HostCompiler(const WorkerLimits& limits, HostBuild build) : limits_(limits), build_(build) {}

    std::string identity() override { return located().identity; }
    std::vector<std::string> options(const Target& target, const Source&) override {
        if (build_ == HostBuild::recorded) return recorded_options(target);
        std::vector<std::string> options(kOptions.begin(), kOptions.end());
        if (kX86) {
            options.push_back("-march=" + target.arch);
            // A thread's handful of results fills one narrow vector; wider ones are put together lane by lane
            // (the FP16 tile with 8 x 8 results per thread: 15 against 8 GFLOP/s).
            options.push_back("-mprefer-vector-width=128");
        }
        if (!located().is_clang)
            options.insert(options.end(), kLateStoreMotion.begin(), kLateStoreMotion.end());
        return options;
    }
    Binary compile(const Source& source, const Target& target, Isolation isolation) override;
    std::string description() override {
        const Located compiler = located();
        return compiler.version + ", " + compiler.file.string();
    }
    std::vector<std::string> supported_archs() override {
        if (kX86) return {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
        return {host_arch()};
    }

  private:
    struct Located {
        fs::path file;
        std::vector<fs::path> parts;  // the program and those behind it
        std::string stamp;            // of the parts
        bool is_clang = false;
        std::string version;  // "gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)"
        std::string identity;
    };

    Located located();
    std::vector<std::string> recorded_options(const Target& target);
    ProcessRequest request(std::vector<std::string> arguments) const;
    ProcessResult run(std::vector<std::string> arguments, const fs::path& directory) const;

    const WorkerLimits limits_;
    const HostBuild build_;
    std::mutex mutex_;
    std::optional<Located> located_;
};

ProcessRequest HostCompiler::request(std::vector<std::string> arguments) const {
    ProcessRequest process;
    process.arguments = std::move(arguments);
    process.timeout = limits_.timeout;
    process.stop = limits_.stop;
    process.environment = {{"LC_ALL", "C"}};
    process.unset_environment.assign(kMeddlingVariables.begin(), kMeddlingVariables.end());
    return process;
}

// In a directory for this run alone.
ProcessResult HostCompiler::run(std::vector<std::string> arguments, const fs::path& directory) const {
    ProcessRequest process = request(std::move(arguments));
    process.directory = directory;
    process.memory_bytes = limits_.memory_bytes;
    process.environment.emplace_back("TMPDIR", directory.string());
    ProcessResult result = run_process(process);
    if (!result.status_lost) return result;

    // A program that ignores SIGCHLD, or waits for every child, keeps this process from being told the
    // status: once more, under a shell that writes it down.
    constexpr const char* kStatus = "kiln-status";
    process.arguments.insert(process.arguments.begin(),
                             {"/bin/sh", "-c", "\"$@\"; echo $? > \"$0\"", kStatus});
    result = run_process(process);
    if (const auto status = read_text_if_exists(directory / kStatus); status && !status->empty()) {
        result.status_lost = false;
        result.exit_status = std::atoi(status->c_str());
    }
    return result;
}

HostCompiler::Located HostCompiler::located() {
    const std::lock_guard lock(mutex_);
    if (located_ && located_->stamp == files_stamp(located_->parts)) return *located_;
    const fs::path file = find_compiler();
    // Tells what it would run for this, and runs nothing.
    const ProcessResult result =
        run_process(request({file.string(), "-###", "-shared", "-x", "c++", "/dev/null", "-o", "unused.so"}));
    if (!result.succeeded() && !result.status_lost)
        throw BuildError("The C++ compiler " + file.string() + " does not tell its version: " +
                             file.filename().string() + " -### " + result.how_it_ended(limits_.timeout) + ".",
                         result.error);
    // Of all that it prints only the version with the distribution's build, and the target, hold no path.
    std::string version, target, line;
    std::vector<fs::path> parts = {file};
    for (std::istringstream lines(result.error); std::getline(lines, line);) {
        const auto colon = line.find(':'), word = line.find("version ");
        if (line.starts_with("Target: ")) target = line.substr(8);
        if (version.empty() && word != std::string::npos && word < colon) version = line;
        if (const auto program = program_of_command(line)) parts.push_back(*program);
    }
    while (version.ends_with(' ')) version.pop_back();
    if (version.empty() || target.empty())
        throw BuildError(
            file.string() +
                " -### tells no version: it is neither GCC nor Clang. Set KILN_HOST_CXX to one of those.",
            result.error);
    if (const auto linker = find_program("ld")) parts.push_back(*linker);  // GCC's collect2 runs it
    const std::string stamp = files_stamp(parts);
    std::string identity = version + " for " + target;
    for (const auto& part : parts) {
        // A wrapper script may add options, so its text counts.
        const auto build = elf_identity(part);
        identity += " " + (build ? *build : "script " + digest_hex(read_text_if_exists(part).value_or("")));
    }
    const bool is_clang = version.find("clang") != std::string::npos;
    located_ = Located{file, std::move(parts), stamp, is_clang, std::move(version), std::move(identity)};
    return *located_;
}

std::vector<std::string> HostCompiler::recorded_options(const Target& target) {
    std::vector<std::string> options(kRecordedOptions.begin(), kRecordedOptions.end());
    const auto add = [&options](const auto& more) {
        options.insert(options.end(), more.begin(), more.end());
    };
    if (located().is_clang)
        add(kRecordedClangOptions);
    else
        add(kRecordedGccOptions);
    if (kX86) options.push_back("-march=" + target.arch);
    return options;
}

Binary HostCompiler::compile(const Source& source, const Target& target, Isolation) {
    const auto archs = supported_archs();
    if (std::find(archs.begin(), archs.end(), target.arch) == archs.end())
        throw BuildError("\"" + target.arch + "\" is no architecture of this host; " + enumerate(archs) +
                         " can be compiled here.");
    const Stopwatch watch;
    const Located compiler = located();
    const TemporaryDirectory directory;
    for (const auto& header : source.headers) write_virtual(directory.path(), header.name, header.text);
    // Under a name of its own: GCC shows the line that a message is about from the file that #line names,
    // and would show another one if it found the specialised text there.
    constexpr const char* kInput = "specialised.cpp";
    write_virtual(directory.path(), kInput,
                  "#line 1 \"" + source.file_name + "\"\n" + source.text + "\nKILN_HOST_KERNEL(" +
                      source.entry + ")\n");

    constexpr const char* kOutput = "kiln-kernel.so";
    std::vector<std::string> arguments = {compiler.file.string()};
    const auto options = this->options(target, source);
    arguments.insert(arguments.end(), options.begin(), options.end());
    if (build_ == HostBuild::recorded) {
        // The directory's name is in no byte of the result.
        arguments.push_back("-ffile-prefix-map=" + directory.path().string() + "=.");
        write_virtual(directory.path(), kMarginInput, kMargin);
        arguments.insert(arguments.end(), {"-I.", "-o", kOutput, kMarginInput, kInput, kMarginInput});
        if (!compiler.is_clang)
            arguments.insert(arguments.end(), kRecordedGccLibraries.begin(), kRecordedGccLibraries.end());
    } else {
        arguments.insert(arguments.end(), {"-I.", "-o", kOutput, kInput});
    }
    const ProcessResult result = run(std::move(arguments), directory.path());
    const std::string log = without(result.error + result.output, directory.path().string() + "/");
    const std::string product = compiler.file.filename().string();
    if (!result.succeeded())
        throw BuildError(product + " (" + compiler.version + ") could not compile " + source.file_name +
                             " for " + target.arch + ": it " + result.how_it_ended(limits_.timeout) + "." +
                             (may_lack_memory(log) ? memory_note(limits_) : ""),
                         log);
    auto bytes = read_bytes_if_exists(directory.path() / kOutput);
    if (!bytes || bytes->empty())
        throw BuildError(product + " ended well, but wrote no shared object for " + source.file_name + ".",
                         log);
    Binary binary;
    binary.kind = BinaryKind::shared_object;
    binary.entry = source.entry;
    binary.bytes = std::move(*bytes);
    binary.log = log;
    binary.compiler = compiler.version;
    binary.compile_ms = watch.elapsed_ms();
    return binary;
}

}  // namespace

std::unique_ptr<Compiler> make_host_compiler(const WorkerLimits& limits, HostBuild build) {
    return std::make_unique<HostCompiler>(limits, build);
}

}  // namespace kiln
