// SPDX-License-Identifier: Apache-2.0
//
// A driver is asked what it would run (-###). The answer names the version and the programs and files behind it, whose
// content is the identity.
#include "compile/host_driver.h"

#include <kiln/error.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/config.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/words.h"
#include "compile/driver_answer.h"
#include "compile/gcc_installations.h"
#include "compile/loaded_objects.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

constexpr const char* kWrapper = "wrapper";

bool is_executable(const fs::path& path) {
    std::error_code error;
    return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

std::optional<fs::path> find_program(const std::string& name, const std::vector<fs::path>& directories) {
    if (name.find('/') != std::string::npos)
        return is_executable(name) ? std::optional(fs::absolute(name)) : std::nullopt;
    for (const auto& directory : directories) {
        if (is_executable(directory / name)) return fs::absolute(directory / name);
    }
    return std::nullopt;
}

fs::path find_compiler() {
    constexpr const char* kRemedy = " On Debian and Ubuntu: apt-get install g++";
    if (const auto chosen = config::host_cxx()) {
        if (auto path = find_program(*chosen, config::executable_path())) return *path;
        throw BuildError("KILN_HOST_CXX is set to \"" + *chosen +
                         "\", which is no program here (give a path, or a name in PATH, without arguments). "
                         "Correct it, or unset it so that c++, g++ and clang++ are tried." +
                         kRemedy);
    }
    for (const char* name : {"c++", "g++", "clang++"}) {
        if (auto path = find_program(name, config::executable_path())) return *path;
    }
    throw BuildError(
        std::string("The host backend needs a C++ compiler, and none of c++, g++ and clang++ is in PATH. "
                    "Install one, or set KILN_HOST_CXX to it.") +
        kRemedy);
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

/// Whether the file is GCC's or Clang's own driver, by a text in it: of GCC's rules for the linker's command, and of Clang's
/// messages. A wrapper, script or program, may give the driver its own name, so that the driver calls itself that.
bool is_driver(const fs::path& file) {
    constexpr std::string_view kOfGcc = "%{!fsyntax-only:%{!c:%{!M:%{!MM:%{!E:%{!S:";
    constexpr std::string_view kOfClang = "unknown integrated tool";
    std::ifstream stream(file, std::ios::binary);
    std::string window, chunk(std::size_t{1} << 20, '\0');
    for (bool first = true; stream; first = false) {
        stream.read(chunk.data(), std::ssize(chunk));
        window.append(chunk, 0, static_cast<std::size_t>(stream.gcount()));
        if (first && !window.starts_with("\177ELF")) return false;
        if (window.find(kOfGcc) != std::string::npos || window.find(kOfClang) != std::string::npos)
            return true;
        window.erase(
            0, window.size() - std::min(window.size(), kOfGcc.size()));  // a text may lie across two chunks
    }
    return false;
}

/// Whether something runs the driver, and may give it options that no known file holds.
bool is_wrapper(const fs::path& file, const DriverAnswer& answer) {
    std::error_code error;
    const auto driver = find_program(answer.driver, config::executable_path());
    return !answer.option_files.empty() || !driver || !fs::equivalent(*driver, file, error) ||
           !is_driver(file);
}

}  // namespace

ProcessRequest HostDriver::request(std::vector<std::string> arguments,
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

// What a wrapper runs may depend on anything, such as a file of options that it reads: it is asked every time, and what
// it would run is a part of question and identity. A driver's answer is remembered by the stamps of its files.
HostDriver::Located HostDriver::located() const {
    const fs::path file = find_compiler();
    const auto environment = compiler_environment(CompilerKind::host).ingredients;
    // The number is that of what examine() finds and watches: what another Kiln remembers is no answer.
    std::string question = "host compiler 2 " + file.string() + " " + search_environment();
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

// A driver behind a wrapper has the PATH that the wrapper gives it.
std::string HostDriver::ask(const fs::path& file, const std::vector<Variable>& environment) const {
    std::string text = ask_commands(file, environment);
    const DriverAnswer answer = parse_driver_answer(text);
    if (!answer.is_clang() && answer.needs_path() && is_wrapper(file, answer)) text += ask_path_line(file);
    return text;
}

// It runs nothing for this question. In a directory like that of a compile.
std::string HostDriver::ask_commands(const fs::path& file, const std::vector<Variable>& environment) const {
    std::optional<TemporaryDirectory> directory;
    fs::path path;  // as Clang prints it, where it says in which directory it runs
    try {
        directory.emplace();
        path = fs::canonical(directory->path());
    } catch (const std::system_error&) {
        // A driver needs none for this. A wrapper's temporary files keep their names, so that nothing is found for it, and
        // the compile reports it.
    }
    // -v: so that Clang prints which installations of GCC it found.
    ProcessRequest process = request(
        {file.string(), "-###", "-v", "-shared", "-x", "c++", "/dev/null", "-o", "unused.so"}, environment);
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

// For answers that may be missing. But of one that does not come in time each further question would wait for as long.
std::string HostDriver::ask_option(const fs::path& file, const std::vector<std::string>& options) const {
    const auto environment = compiler_environment(CompilerKind::host).ingredients;
    std::vector<std::string> arguments = {file.string()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ProcessResult result = run_process(request(std::move(arguments), environment));
    if (result.timed_out || result.stopped)
        throw BuildError("The C++ compiler " + file.string() +
                             " does not answer: " + file.filename().string() + " " + options.front() + " " +
                             result.how_it_ended(limits_.timeout) + "." + environment_note(environment),
                         result.error);
    return std::string(trimmed(result.output));
}

// GCC runs the program that -wrapper names in place of each of its own: here a shell, which gets the words of the
// preprocessor's command as arguments and does not use them.
std::string HostDriver::ask_path_line(const fs::path& file) const {
    const std::string command = "echo \"" + std::string(kPathOfDriver) + "$PATH\"";
    const std::string output =
        ask_option(file, {"-wrapper", "/bin/sh,-c," + command, "-E", "-x", "c++", "/dev/null"});
    return output.starts_with(kPathOfDriver) ? output.substr(0, output.find('\n')) + "\n" : "";
}

// Also where a program would be found first if it came to be there, so that some of these do not exist.
std::vector<fs::path> HostDriver::program_directories(const fs::path& file) const {
    constexpr std::string_view kPrograms = "programs: =";
    std::string line;
    for (std::istringstream lines(ask_option(file, {"-print-search-dirs"})); std::getline(lines, line);)
        if (line.starts_with(kPrograms))
            return directories_of(std::string_view(line).substr(kPrograms.size()));
    return {};
}

void HostDriver::add_objects(const fs::path& file, const DriverAnswer& answer,
                             const std::vector<fs::path>& path, CompilerObjects& objects) const {
    std::error_code error;
    objects.add(file);
    for (const auto& name : answer.option_files) objects.add_alone(name);
    for (const auto& name : answer.named_files)
        if (fs::is_regular_file(name, error)) objects.add(name);
    // Programs that run each other: GCC's collect2 runs the first of real-ld, collect-ld and ld. What of libgcc is needed
    // becomes part of the result, and so does crtfastmath.o with -ffast-math.
    auto names = answer.programs;
    for (const char* option :
         {"-print-prog-name=as", "-print-prog-name=real-ld", "-print-prog-name=collect-ld",
          "-print-prog-name=ld", "-print-libgcc-file-name", "-print-file-name=crtfastmath.o"})
        names.push_back(ask_option(file, {option}));
    for (const auto& name : names) {
        if (const auto program = find_program(name, path))
            objects.add(*program);
        else if (name.starts_with('/') && fs::is_regular_file(name, error))
            objects.add_alone(name);
    }
}

IdentityMemory::Answer HostDriver::examine(const fs::path& file, const std::string& text) const {
    const DriverAnswer answer = parse_driver_answer(text);
    if (answer.version.empty() || answer.target.empty())
        throw BuildError(
            file.string() +
                " -### reports no version: it is neither GCC nor Clang. Set KILN_HOST_CXX to one of those.",
            text);
    const auto path = answer.path.empty() ? config::executable_path() : answer.path;
    CompilerObjects objects(CompilerKind::host);
    add_objects(file, answer, path, objects);
    std::vector<fs::path> watched = answer.program_directories;
    const auto watch = [&watched](const std::vector<fs::path>& more) {
        watched.insert(watched.end(), more.begin(), more.end());
    };
    watch(program_directories(file));
    if (answer.is_clang()) watch(places_of_gcc(answer));
    watch(path);
    watch({file.parent_path()});
    watch(objects.watched());
    const std::string gcc = answer.gcc_version.empty() ? "" : " with GCC " + answer.gcc_version;
    return {{answer.is_clang() ? "clang" : "gcc", answer.version,
             answer.version + " for " + answer.target + gcc + " " + objects.identity(),
             is_wrapper(file, answer) ? kWrapper : "driver"},
            std::move(watched)};
}

}  // namespace kiln
