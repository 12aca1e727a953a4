// SPDX-License-Identifier: Apache-2.0
//
// The system's C++ compiler, run in a private directory that holds the source and its headers under their
// virtual names; the result is a shared object that exports kiln_host_kernel (kiln/host_abi.h).
#include <kiln/error.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/config.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/host_arch.h"
#include "base/process.h"
#include "base/stopwatch.h"
#include "base/words.h"
#include "compile/compile_options.h"
#include "compile/compile_protocol.h"
#include "compile/compiler.h"
#include "compile/host_entry.h"
#include "compile/loaded_objects.h"

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
                                "-fstack-clash-protection", "-Wno-unknown-pragmas", "-Wno-attributes",
                                "-Wl,--build-id=none", "-Wl,--as-needed", "-Wl,-z,defs"});

// GCC's motion of loads and stores out of loops takes a thread's results apart, one register each, before anybody
// looks for vectors among them. Its later pass, over vector registers, moves them without that (the FP32 tile with
// 8 x 8 results per thread, VEC=4 and BK=64: 19 GFLOP/s with the former, 21 with neither, 30 with the latter).
constexpr auto kLateStoreMotion = std::to_array<const char*>({"-fno-tree-loop-im", "-fgcse-sm"});

// The same for kernels that report their accesses: instrumented for a thread sanitizer, whose functions the
// prelude has. One access in the source should stay one instruction, of the same width: nothing that takes
// structs apart, copies code, or joins accesses.
constexpr auto kRecordedOptions = std::to_array<const char*>(
    {"-O1", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared",
     // Lines, inlined calls and variables; options would be there too, and with them paths.
     "-fvisibility=hidden", "-g", "-gno-record-gcc-switches", "-DKILN_HOST_RECORD", "-fsanitize=thread",
     // Ubuntu's GCC defines it, and <cstring> then has a memcpy of its own next to the one that records.
     "-U_FORTIFY_SOURCE", "-fno-unroll-loops", "-fno-tree-vectorize", "-fno-tree-slp-vectorize",
     "-fstack-clash-protection", "-Wno-unknown-pragmas", "-Wno-attributes", "-Wl,--build-id=none",
     "-Wl,--as-needed", "-Wl,-z,defs"});
constexpr auto kRecordedGccOptions =
    std::to_array<const char*>({"-fsanitize=bounds-strict", "-fno-tree-sra", "-fno-tree-ch",
                                "-fno-tree-loop-ivcanon", "-fno-thread-jumps", "-fno-store-merging",
                                "-fno-crossjumping", "-fno-tree-loop-distribute-patterns", "-nodefaultlibs"});
constexpr auto kRecordedClangOptions = std::to_array<const char*>(
    {"-fsanitize=array-bounds", "-fdebug-compilation-dir=.", "-mllvm", "-unroll-threshold=0", "-mllvm",
     "-pragma-unroll-threshold=0", "-mllvm", "-disable-loop-idiom-all", "-mllvm", "-enable-tail-merge=false",
     "-Wno-pass-failed"});
// The libraries that are linked by default, except those of sanitizers.
constexpr auto kRecordedGccLibraries =
    std::to_array<const char*>({"-lstdc++", "-lm", "-lgcc_s", "-lgcc", "-lc"});

constexpr const char* kWrapper = "wrapper";

// In place of what kOptions says of them.
constexpr auto kDebugOptions = std::to_array<const char*>({"-O0", "-g"});

// Linked before and behind the kernel: nothing is next to its outermost shared variables either.
constexpr const char* kMarginInput = "kiln-margin.s";
constexpr const char* kMargin =
    "\t.file \"kiln-margin.s\"\n"  // else it has the name of a temporary file on aarch64
    "\t.section .tbss,\"awT\",%nobits\n\t.zero 16384\n\t.section .note.GNU-stack,\"\",%progbits\n";

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

// The words of a line that -### prints for a command: a space, then the words, some in quotes. None for other lines.
std::vector<std::string> words_of_command(std::string_view line) {
    std::vector<std::string> words;
    if (!line.starts_with(' ')) return words;
    while (!line.empty()) {
        line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
        if (line.empty()) break;
        const bool quoted = line.starts_with('"');
        if (quoted) line.remove_prefix(1);
        const auto end = std::min(line.find(quoted ? '"' : ' '), line.size());
        words.emplace_back(line.substr(0, end));
        line.remove_prefix(std::min(end + 1, line.size()));
    }
    return words;
}

// "/a:/b" -> /a, /b
void append_directories(std::string_view list, std::vector<fs::path>& directories) {
    while (!list.empty()) {
        const auto end = std::min(list.find(':'), list.size());
        if (end > 0) directories.emplace_back(list.substr(0, end));
        list.remove_prefix(std::min(end + 1, list.size()));
    }
}

std::string without(std::string text, const std::string& part) {
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos;) text.erase(at, part.size());
    return text;
}

/// Without the names of temporary files, each of which is in that directory.
std::string without_temporary_names(const std::string& text, const std::string& directory) {
    std::string result;
    std::size_t at = 0;
    for (std::size_t found = 0; (found = text.find(directory, at)) != std::string::npos;) {
        result += text.substr(at, found - at) + "temporary";
        at = std::min(text.find_first_of(" \"\n", found), text.size());
    }
    return result + text.substr(at);
}

/// The lines of -### that are commands.
std::string commands_of(const std::string& answer) {
    std::string commands, line;
    for (std::istringstream lines(answer); std::getline(lines, line);)
        if (line.starts_with(' ')) commands += line + "\n";
    return commands;
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
        : limits_(limits), build_(build), memory_(std::move(memory)) {}

    CompilerIngredients ingredients() override;
    std::vector<std::string> options(const Target& target, const Source& source) override;
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
        bool is_clang = false;
        std::string version;  // "gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)"
        std::string identity;
    };

    Binary compile_as(const CompilerIngredients& as, const Source& source, const Target& target,
                      const CompilePlace& place) override;
    Located located();
    /// What it would run, as -### prints it.
    std::string ask(const fs::path& file, const std::vector<Variable>& environment) const;
    /// From that answer: version, target, and the content of every program and library behind the driver.
    IdentityMemory::Answer examine(const fs::path& file, const std::string& answer) const;
    ProcessRequest request(std::vector<std::string> arguments,
                           const std::vector<Variable>& environment) const;
    ProcessResult run(std::vector<std::string> arguments, const fs::path& directory,
                      const std::vector<Variable>& environment, const std::stop_token& stop) const;

    const WorkerLimits limits_;
    const HostBuild build_;
    const SharedMemory memory_;
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

ProcessRequest HostCompiler::request(std::vector<std::string> arguments,
                                     const std::vector<Variable>& environment) const {
    ProcessRequest process;
    process.arguments = std::move(arguments);
    process.timeout = limits_.timeout;
    process.stop = limits_.stop;
    process.environment = environment;
    process.environment.emplace_back("LC_ALL", "C");
    process.drops = [](std::string_view name) {
        return treatment_of(CompilerKind::host, name) != VariableTreatment::harmless;
    };
    return process;
}

// In a directory for this run alone.
ProcessResult HostCompiler::run(std::vector<std::string> arguments, const fs::path& directory,
                                const std::vector<Variable>& environment, const std::stop_token& stop) const {
    ProcessRequest process = request(std::move(arguments), environment);
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

// What a wrapper runs may depend on anything, such as a file of options that it reads: it is asked every time, and what
// it would run is a part of question and identity. A driver's answer is remembered by the stamps of its files.
HostCompiler::Located HostCompiler::located() {
    const fs::path file = find_compiler();
    const auto environment = compiler_environment(CompilerKind::host).ingredients;
    std::string question = "host compiler " + file.string() + " " + search_environment();
    for (const auto& [name, value] : environment) question += name + "=" + value + "\n";
    std::string answer;
    auto found = memory_->ask(question, [&] { return examine(file, answer = ask(file, environment)); });
    if (found[3] == kWrapper) {
        if (answer.empty()) {
            answer = ask(file, environment);
            found = memory_->ask(question + answer, [&] { return examine(file, answer); });
        }
        found[2] += " commands " + checksum_hex(commands_of(answer));
    }
    return {file, found[0] == "clang", found[1], found[2]};
}

// It runs nothing for this question. In a directory like that of a compile.
std::string HostCompiler::ask(const fs::path& file, const std::vector<Variable>& environment) const {
    std::optional<TemporaryDirectory> directory;
    fs::path path;  // as Clang prints it, where it says in which directory it runs
    try {
        directory.emplace();
        path = fs::canonical(directory->path());
    } catch (const std::system_error&) {
        // A driver needs none for this. A wrapper's temporary files keep their names, so that nothing is found for it, and
        // the compile reports it.
    }
    ProcessRequest process =
        request({file.string(), "-###", "-shared", "-x", "c++", "/dev/null", "-o", "unused.so"}, environment);
    if (!path.empty()) {
        process.directory = path;
        process.environment.emplace_back("TMPDIR", path.string());
    }
    const ProcessResult result = run_process(process);
    if (!result.succeeded() && !result.status_lost)
        throw BuildError("The C++ compiler " + file.string() +
                             " does not report its version: " + file.filename().string() + " -### " +
                             result.how_it_ended(limits_.timeout) + "." + environment_note(environment),
                         result.error);
    return path.empty() ? result.error : without_temporary_names(result.error, path.string());
}

IdentityMemory::Answer HostCompiler::examine(const fs::path& file, const std::string& answer) const {
    const auto environment = compiler_environment(CompilerKind::host).ingredients;
    CompilerObjects objects(CompilerKind::host);
    objects.add(file);
    // Of all that it prints only the version with the distribution's build, and the target, hold no path.
    std::string version, target, line;
    std::vector<fs::path> watched;  // directories where GCC looks for its programs and its specs
    std::vector<std::string> programs;
    fs::path driver;             // that ran the commands; it may lie behind a wrapper
    bool reads_options = false;  // from files, which may name others
    for (std::istringstream lines(answer); std::getline(lines, line);) {
        const auto colon = line.find(':'), word = line.find("version ");
        if (line.starts_with("Target: ")) target = line.substr(8);
        if (version.empty() && word != std::string::npos && word < colon) version = line;
        if (line.starts_with("COMPILER_PATH="))
            append_directories(std::string_view(line).substr(14), watched);
        for (const std::string_view start : {"Reading specs from ", "Configuration file: "})
            if (line.starts_with(start)) {
                objects.add_alone(line.substr(start.size()));
                reads_options = true;
            }
        if (line.starts_with("COLLECT_GCC=")) driver = find_program(line.substr(12)).value_or("");
        const auto words = words_of_command(line);
        for (std::size_t i = 0; i < words.size(); ++i) {
            std::error_code error;
            std::string named = words[i];
            if (named.starts_with("-f")) named.erase(0, named.find('=') + 1);  // -fplugin=/usr/lib/x.so
            if (i == 0)
                programs.push_back(words[i]);
            else if (named.starts_with('/') && fs::is_regular_file(named, error))
                objects.add(named);  // what the linker loads, or links
        }
        if (words.size() > 1 && words[1] == "-cc1") driver = words[0];  // Clang runs itself
    }
    while (version.ends_with(' ')) version.pop_back();
    if (version.empty() || target.empty())
        throw BuildError(
            file.string() +
                " -### reports no version: it is neither GCC nor Clang. Set KILN_HOST_CXX to one of those.",
            answer);
    // Programs that run each other: GCC's collect2 runs ld. What of libgcc is needed becomes part of the result.
    for (const char* question : {"-print-prog-name=as", "-print-prog-name=ld", "-print-libgcc-file-name"}) {
        const ProcessResult named = run_process(request({file.string(), question}, environment));
        programs.emplace_back(trimmed(named.output));
    }
    for (const auto& name : programs) {
        std::error_code error;
        if (const auto program = find_program(name))
            objects.add(*program);
        else if (name.starts_with('/') && fs::is_regular_file(name, error))
            objects.add_alone(name);
    }
    for (const auto& directory : config::executable_path()) watched.push_back(directory);
    watched.push_back(file.parent_path());
    for (auto& one : objects.watched()) watched.push_back(std::move(one));
    const bool is_clang = version.find("clang") != std::string::npos;
    std::error_code error;
    const bool is_wrapper = reads_options || !fs::equivalent(driver, file, error);
    return {{is_clang ? "clang" : "gcc", version, version + " for " + target + " " + objects.identity(),
             is_wrapper ? kWrapper : "driver"},
            std::move(watched)};
}

CompilerIngredients HostCompiler::ingredients() {
    const Located compiler = located();
    CompilerIngredients own{compiler.identity, compiler_environment(CompilerKind::host).ingredients, {}};
    const auto add = [&own](const auto& options) {
        own.options.insert(own.options.end(), options.begin(), options.end());
    };
    if (build_ == HostBuild::fast && !compiler.is_clang) add(kLateStoreMotion);
    if (build_ == HostBuild::fast && compiler.is_clang) own.options.emplace_back("-fdebug-compilation-dir=.");
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
    const Located compiler = located();
    const TemporaryDirectory directory;
    for_each_header(source, [&](const Header& header) {
        write_virtual(directory.path(), header.name,
                      header.name.starts_with("kiln/") ? header.text : with_dynamic_shared(header.text));
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
    // The directory's name is in no byte of the result.
    arguments.push_back("-ffile-prefix-map=" + directory.path().string() + "=.");
    arguments.insert(arguments.end(), as.options.begin(), as.options.end());
    arguments.insert(arguments.end(), {"-MMD", "-MF", kDependencies});
    if (build_ == HostBuild::recorded) {
        write_virtual(directory.path(), kMarginInput, kMargin);
        arguments.insert(arguments.end(), {"-I.", "-o", kOutput, kMarginInput, kInput, kMarginInput});
        if (!compiler.is_clang)
            arguments.insert(arguments.end(), kRecordedGccLibraries.begin(), kRecordedGccLibraries.end());
    } else {
        arguments.insert(arguments.end(), {"-I.", "-o", kOutput, kInput});
    }
    const ProcessResult result = run(std::move(arguments), directory.path(), as.environment, place.stop);
    const std::string log = without(without(result.error + result.output, directory.path().string() + "/"),
                                    std::string(kHostEntryPrefix));
    const std::string product = compiler.file.filename().string();
    if (!result.succeeded())
        throw BuildError(product + " (" + compiler.version + ") could not compile " + source.file_name +
                             " for " + target.arch + ": it " + result.how_it_ended(limits_.timeout) + "." +
                             (may_lack_memory(log) ? memory_note(limits_) : "") +
                             environment_note(as.environment),
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
