// SPDX-License-Identifier: Apache-2.0
//
// The system's C++ compiler, run in a private directory that holds the source and its headers under their
// virtual names; the result is a shared object that exports kiln_host_kernel (kiln/host_abi.h).
#include <fcntl.h>
#include <kiln/error.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <utility>

#include "base/file.h"
#include "base/file_name.h"
#include "base/host_arch.h"
#include "base/process.h"
#include "base/stopwatch.h"
#include "base/words.h"
#include "compile/compile_options.h"
#include "compile/compile_protocol.h"
#include "compile/compiler.h"
#include "compile/host_driver.h"
#include "compile/host_entry.h"
#include "compile/invocation.h"
#include "format/format.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

// Everything but -march and the files. Of debug information lines and inlined calls, for a fault's place, and no build
// ID: equal input gives equal bytes on every machine. -z defs, so that a missing function is an error here, not at the load.
constexpr auto kOptions =
    std::to_array<const char*>({"-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fPIC",
                                "-shared", "-fvisibility=hidden", "-g1", "-gno-record-gcc-switches",
                                // A large frame must hit the guard page below a fiber's
                                // stack, and not jump over it.
                                "-fstack-clash-protection",
                                // As NVRTC: the same memory may be read as several types.
                                "-fno-strict-aliasing",
                                // A sum that nobody begins is far off, rather than by chance right.
                                "-ftrivial-auto-var-init=pattern",
                                // __activemask() tells calls apart by where they return.
                                "-fno-optimize-sibling-calls", "-Wno-unknown-pragmas", "-Wno-attributes",
                                "-DKILN_HOST_NOINLINE=__attribute__((noinline))", "-Wl,--build-id=none",
                                "-Wl,--as-needed", "-Wl,-z,defs",
                                // Each kernel has variables of its own, whatever the application exports.
                                "-Wl,-Bsymbolic"});

// GCC exports variables of C++ templates, which -fvisibility=hidden does not change, as ones of which a process has only one.
constexpr const char* kOwnTemplateVariables = "-fno-gnu-unique";

// GCC's motion of loads and stores out of loops takes a thread's results apart, one register each, before anybody
// looks for vectors among them. Its later pass, over vector registers, moves them without that (the FP32 tile with
// 8 x 8 results per thread, VEC=4 and BK=64: 19 GFLOP/s with the former, 21 with neither, 30 with the latter).
// Calls in two branches must not become one, whose lanes __activemask() could not tell apart.
constexpr auto kGccOptions = std::to_array<const char*>(
    {"-fno-tree-loop-im", "-fgcse-sm", "-fno-crossjumping", "-fno-tree-tail-merge", kOwnTemplateVariables});
constexpr auto kClangOptions =
    std::to_array<const char*>({"-fdebug-compilation-dir=.", "-mllvm", "-simplifycfg-sink-common=false",
                                "-mllvm", "-enable-tail-merge=false"});

// The same for kernels that report their accesses: instrumented for a thread sanitizer, whose functions the
// prelude has. One access in the source should stay one instruction, of the same width: nothing that takes
// structs apart, copies code, or joins accesses.
constexpr auto kRecordedOptions = std::to_array<const char*>(
    {"-O1", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared",
     // Lines, inlined calls and variables; options would be there too, and with them paths.
     "-fvisibility=hidden", "-g", "-gno-record-gcc-switches", "-DKILN_HOST_RECORD", "-fsanitize=thread",
     // Ubuntu's GCC defines it, and <cstring> then has a memcpy of its own next to the one that records.
     "-U_FORTIFY_SOURCE", "-fdata-sections", "-fno-unroll-loops", "-fno-tree-vectorize",
     "-fno-tree-slp-vectorize", "-fstack-clash-protection", "-fno-strict-aliasing",
     // Arguments and results of calls that stay calls are not instrumented.
     "-DKILN_HOST_NOINLINE=", "-fno-optimize-sibling-calls", "-Wno-unknown-pragmas", "-Wno-attributes",
     "-Wl,--build-id=none", "-Wl,--as-needed", "-Wl,-z,defs", "-Wl,-Bsymbolic"});
constexpr auto kRecordedGccOptions = std::to_array<const char*>(
    {"-fsanitize=bounds-strict", "-fsanitize=alignment",
     // Threads that do not enter a loop must not make its loads.
     "-fno-tree-loop-im", kOwnTemplateVariables, "-fno-tree-sra", "-fno-tree-ch", "-fno-tree-loop-ivcanon",
     "-fno-thread-jumps", "-fno-store-merging", "-fno-crossjumping", "-fno-tree-tail-merge",
     "-fno-tree-loop-distribute-patterns", "-nodefaultlibs"});
constexpr auto kRecordedClangOptions = std::to_array<const char*>(
    {"-fsanitize=array-bounds", "-fsanitize=alignment", "-fdebug-compilation-dir=.", "-mllvm",
     "-unroll-threshold=0", "-mllvm", "-pragma-unroll-threshold=0", "-mllvm", "-disable-loop-idiom-all",
     "-mllvm", "-simplifycfg-sink-common=false", "-mllvm", "-enable-tail-merge=false", "-Wno-pass-failed"});
// The libraries that are linked by default, except those of sanitizers.
constexpr auto kRecordedGccLibraries =
    std::to_array<const char*>({"-lstdc++", "-lm", "-lgcc_s", "-lgcc", "-lc"});

// In place of what kOptions says of them.
constexpr auto kDebugOptions = std::to_array<const char*>({"-O0", "-g"});

// Linked before and behind the kernel: nothing is next to its outermost shared variables either.
constexpr const char* kMarginInput = "kiln-margin.s";
constexpr const char* kMargin =
    "\t.file \"kiln-margin.s\"\n"  // else it has the name of a temporary file on aarch64
    "\t.section .tbss,\"awT\",%nobits\n\t.zero 16384\n\t.section .note.GNU-stack,\"\",%progbits\n"
    // What the script names must be there.
    "\t.section .rodata,\"a\",%progbits\n\t.zero 8\n\t.data\n\t.zero 8\n\t.bss\n\t.zero 8\n";

#ifdef __x86_64__
constexpr bool kX86 = true;
#else
constexpr bool kX86 = false;
#endif

// Each shared variable is in a section of its own, and these lie 64 KiB apart: the gap of ObservedLaunch::shared_gap_bytes.
// Other variables that have a name begin a page each, so that behind a constant lies nothing either.
constexpr const char* kGapScript = "kiln-gaps.ld";
constexpr const char* kGaps =
    "SECTIONS { .tbss : SUBALIGN(65536) { *(.tbss .tbss.*) } } INSERT BEFORE .init_array;\n"
    "SECTIONS { .rodata.more : { *(.rodata..L* .rodata.cst* .rodata.str* .rodata.*.str*) }\n"
    "           .rodata.kiln : SUBALIGN(4096) { *(.rodata.*) } } INSERT AFTER .rodata;\n"
    "SECTIONS { .data.more : { *(.data..L* .data.rel.local..L*) }\n"
    "           .data.kiln : SUBALIGN(4096) { *(.data.*) } } INSERT AFTER .data;\n"
    "SECTIONS { .bss.kiln : SUBALIGN(4096) { *(.bss.*) } } INSERT AFTER .bss;\n";

constexpr const char* kPtxNote =
    " Inline PTX is for CUDA: put it between `#if defined(__CUDA_ARCH__)` and `#else` with another way for "
    "the host, or write "
    "`//@ backend cuda`.";

/// Whether the compilers or the assembler say this of an asm statement.
bool has_assembly(std::string_view log) {
    for (const char* const words :
         {"Assembler messages", "must specify a single register", "impossible constraint",
          "inconsistent operand constraints", "<inline asm>", " in asm\n"})
        if (log.find(words) != std::string_view::npos) return true;
    return false;
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

// GCC takes two files with `#pragma once` for one if their content and the seconds of their times of modification are equal.
// So no two have the same time, and that does not depend on when they were written.
void give_times_apart(const fs::path& directory) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(directory))
        if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    time_t second = 0;
    for (const fs::path& file : files) {
        const timespec times[2] = {{++second, 0}, {second, 0}};
        if (::utimensat(AT_FDCWD, file.c_str(), times, 0) != 0)
            throw FileError(errno, "can't set the time of", file);
    }
}

std::string without(std::string text, const std::string& part) {
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos;) text.erase(at, part.size());
    return text;
}

/// The first file of a make rule (-MMD, which leaves system headers out) that is not in the compiler's own directory.
std::optional<std::string> file_elsewhere(const std::string& rule) {
    std::istringstream words(rule);
    std::string word;
    words >> word;  // the target
    while (words >> word) {
        const fs::path path(word);
        if (path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end()) return word;
    }
    return std::nullopt;
}

class HostCompiler final : public Compiler {
  public:
    HostCompiler(const WorkerLimits& limits, HostBuild build, SharedMemory memory)
        : limits_(limits), build_(build), driver_(limits, std::move(memory)) {}

    CompilerIngredients ingredients() override;
    std::vector<std::string> options(const Target& target, const Source& source) override;
    std::string description() override {
        const HostDriver::Located compiler = driver_.located();
        return compiler.version + ", " + compiler.file.string();
    }
    std::vector<std::string> supported_archs() override {
        if (kX86) return {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
        return {host_arch()};
    }

  private:
    Binary compile_as(const CompilerIngredients& as, const Source& source, const Target& target,
                      const CompilePlace& place) override;
    ProcessResult run(std::vector<std::string> arguments, const fs::path& directory,
                      const std::vector<Variable>& environment, const std::stop_token& stop) const;

    const WorkerLimits limits_;
    const HostBuild build_;
    const HostDriver driver_;
};

std::vector<std::string> HostCompiler::options(const Target& target, const Source& source) {
    const bool records = build_ == HostBuild::recorded;
    CompileOptions given = compile_options(target, source, records ? OptionUse::language : OptionUse::all);
    std::vector<std::string> options = {"-std=" + given.standard};
    const auto add = [&](const auto& more) { options.insert(options.end(), more.begin(), more.end()); };
    if (records)
        add(kRecordedOptions);
    else
        add(kOptions);
    if (kX86) options.push_back("-march=" + target.arch);
    // A thread's handful of results fills one narrow vector; wider ones are put together lane by lane
    // (the FP16 tile with 8 x 8 results per thread: 15 against 8 GFLOP/s).
    if (kX86 && !records) options.push_back("-mprefer-vector-width=128");
    if (given.debug) add(kDebugOptions);
    add(given.others);
    return options;
}

// In a directory for this run alone.
ProcessResult HostCompiler::run(std::vector<std::string> arguments, const fs::path& directory,
                                const std::vector<Variable>& environment, const std::stop_token& stop) const {
    ProcessRequest process = driver_.request(std::move(arguments), environment);
    if (stop.stop_possible()) process.stop = stop;
    process.directory = directory;
    process.memory_bytes = limits_.memory_bytes;
    process.environment.emplace_back("TMPDIR", directory.string());
    ProcessResult result = run_process(process);
    if (!result.status_lost) return result;

    // If the program ignores SIGCHLD, or waits for every child, the exit status is lost: try again, under a
    // shell that writes it down.
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

CompilerIngredients HostCompiler::ingredients() {
    const HostDriver::Located compiler = driver_.located();
    CompilerIngredients own{formatted("{} {}", compiler.identity, kHostInvocation),
                            compiler_environment(CompilerKind::host).ingredients,
                            {}};
    const auto add = [&own](const auto& options) {
        own.options.insert(own.options.end(), options.begin(), options.end());
    };
    if (build_ == HostBuild::fast && !compiler.is_clang) add(kGccOptions);
    if (build_ == HostBuild::fast && compiler.is_clang) add(kClangOptions);
    if (build_ == HostBuild::recorded && compiler.is_clang) add(kRecordedClangOptions);
    if (build_ == HostBuild::recorded && !compiler.is_clang) add(kRecordedGccOptions);
    return own;
}

Binary HostCompiler::compile_as(const CompilerIngredients& as, const Source& source, const Target& target,
                                const CompilePlace& place) {
    const auto archs = supported_archs();
    if (std::find(archs.begin(), archs.end(), target.arch) == archs.end())
        throw BuildError("\"" + target.arch + "\" is no architecture of this host; " + enumerate(archs) +
                         " can be compiled here.");
    const Stopwatch watch;
    const HostDriver::Located compiler = driver_.located();
    const TemporaryDirectory directory;
    for_each_header(source, [&](const Header& header) {
        write_virtual(directory.path(), header.name,
                      header.name.starts_with("kiln/")
                          ? header.text
                          : with_host_keywords(with_dynamic_shared(header.text)));
    });
    // Under a name of its own: GCC shows the line that a message is about from the file that #line names,
    // and would show another one if it found the specialised text there.
    constexpr const char* kInput = "specialised.cpp";
    const HostText input = host_text(source);
    write_virtual(directory.path(), kInput, "#line 1 \"" + source.file_name + "\"\n" + input.text);

    constexpr const char* kOutput = "kiln-kernel.so";
    constexpr const char* kDependencies = "kiln-kernel.d";
    std::vector<std::string> arguments = {compiler.file.string()};
    const auto options = this->options(target, source);
    arguments.insert(arguments.end(), options.begin(), options.end());
    // The directory's name is in no byte of the result: neither that one nor, where it lies behind a link, the system's.
    for (const fs::path& name : {directory.path(), fs::canonical(directory.path())})
        arguments.push_back("-ffile-prefix-map=" + name.string() + "=.");
    arguments.insert(arguments.end(), as.options.begin(), as.options.end());
    arguments.insert(arguments.end(), {"-MMD", "-MF", kDependencies});
    if (build_ == HostBuild::recorded) {
        write_virtual(directory.path(), kMarginInput, kMargin);
        write_virtual(directory.path(), kGapScript, kGaps);
        arguments.insert(arguments.end(), {"-I.", "-o", kOutput, kMarginInput, kInput, kMarginInput,
                                           std::string("-Wl,-T,") + kGapScript});
        if (!compiler.is_clang)
            arguments.insert(arguments.end(), kRecordedGccLibraries.begin(), kRecordedGccLibraries.end());
    } else {
        arguments.insert(arguments.end(), {"-I.", "-o", kOutput, kInput});
    }
    give_times_apart(directory.path());
    const ProcessResult result = run(std::move(arguments), directory.path(), as.environment, place.stop);
    const std::string log = without(without(result.error + result.output, directory.path().string() + "/"),
                                    std::string(kHostEntryPrefix));
    const std::string product = compiler.file.filename().string();
    if (!result.succeeded())
        throw BuildError(product + " (" + compiler.version + ") could not compile " + source.file_name +
                             " for " + target.arch + ": it " + result.how_it_ended(limits_.timeout) + "." +
                             (may_lack_memory(log) ? memory_note(limits_) : "") +
                             (has_assembly(log) ? kPtxNote : "") + environment_note(as.environment),
                         log);
    if (const auto file = file_elsewhere(read_text_if_exists(directory.path() / kDependencies).value_or("")))
        throw BuildError(
            source.file_name + " includes " + *file +
            ", which was read from the disk and is not part of the build's key; name its directory by "
            "--include-dir or `//@ include_dir`, and include it by its name there");
    auto bytes = read_bytes_if_exists(directory.path() / kOutput);
    if (!bytes || bytes->empty())
        throw BuildError(product + " ended well, but wrote no shared object for " + source.file_name + ".",
                         log);
    Binary binary;
    binary.kind = BinaryKind::shared_object;
    set_entries(binary, input.entries);
    binary.bytes = std::move(*bytes);
    binary.log = log;
    binary.compiler = compiler.version;
    binary.compile_ms = watch.elapsed_ms();
    return binary;
}

}  // namespace

std::unique_ptr<Compiler> make_host_compiler(const WorkerLimits& limits, HostBuild build,
                                             SharedMemory memory) {
    return std::make_unique<HostCompiler>(limits, build, std::move(memory));
}

}  // namespace kiln
