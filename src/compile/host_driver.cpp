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
#include "compile/loaded_objects.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

constexpr const char* kWrapper = "wrapper";

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

/// A script is none: it may give itself any name, that of the driver too.
bool is_program(const fs::path& file) {
    std::string begin(4, '\0');
    std::ifstream(file, std::ios::binary).read(begin.data(), std::ssize(begin));
    return begin == "\177ELF";
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
std::string HostDriver::ask(const fs::path& file, const std::vector<Variable>& environment) const {
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

IdentityMemory::Answer HostDriver::examine(const fs::path& file, const std::string& answer) const {
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
    const bool is_wrapper = reads_options || !fs::equivalent(driver, file, error) || !is_program(file);
    return {{is_clang ? "clang" : "gcc", version, version + " for " + target + " " + objects.identity(),
             is_wrapper ? kWrapper : "driver"},
            std::move(watched)};
}

}  // namespace kiln
