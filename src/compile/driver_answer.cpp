// SPDX-License-Identifier: Apache-2.0
//
// Lines of commands begin with a space; GCC quotes words that need it, Clang all of them. Of all other lines only the
// version with the distribution's build, and the target, hold no path.
#include "compile/driver_answer.h"

#include <algorithm>
#include <optional>
#include <sstream>

namespace kiln {
namespace fs = std::filesystem;
namespace {

// A space, then the words, some in quotes. None for lines that are no commands.
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

void add_command(std::string_view line, DriverAnswer& answer) {
    const auto words = words_of_command(line);
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string_view named = words[i];
        if (named.starts_with("-f")) named.remove_prefix(named.find('=') + 1);  // -fplugin=/usr/lib/x.so
        if (i == 0)
            answer.programs.push_back(words[i]);
        else if (named.starts_with('/'))
            answer.named_files.emplace_back(named);
    }
    if (words.size() > 1 && words[1] == "-cc1") answer.driver = words[0];  // Clang runs itself
}

/// What follows this start of the line.
std::optional<std::string> rest_of(std::string_view line, std::string_view start) {
    if (!line.starts_with(start)) return std::nullopt;
    return std::string(line.substr(start.size()));
}

void add_statement(const std::string& line, DriverAnswer& answer) {
    const auto colon = line.find(':'), word = line.find("version ");
    if (answer.version.empty() && word != std::string::npos && word < colon) answer.version = line;
    if (const auto target = rest_of(line, "Target: ")) answer.target = *target;
    if (const auto driver = rest_of(line, "COLLECT_GCC=")) answer.driver = *driver;
    if (const auto directory = rest_of(line, "InstalledDir: ")) answer.installed_in = *directory;
    if (const auto path = rest_of(line, kPathOfDriver)) answer.path = directories_of(*path);
    if (const auto list = rest_of(line, "COMPILER_PATH="))
        for (auto& one : directories_of(*list)) answer.program_directories.push_back(std::move(one));
    for (const char* start : {"Reading specs from ", "Configuration file: "})
        if (auto file = rest_of(line, start)) answer.option_files.push_back(std::move(*file));
    if (const auto found = rest_of(line, "Found candidate GCC installation: "))
        answer.gcc_installations.emplace_back(*found);
    if (const auto selected = rest_of(line, "Selected GCC installation: "))
        answer.gcc_version = fs::path(*selected).filename().string();
}

}  // namespace

bool DriverAnswer::needs_path() const {
    return std::any_of(programs.begin(), programs.end(),
                       [](const std::string& name) { return name.find('/') == std::string::npos; });
}

DriverAnswer parse_driver_answer(const std::string& text) {
    DriverAnswer answer;
    std::string line;
    for (std::istringstream lines(text); std::getline(lines, line);) {
        if (line.starts_with(' '))
            add_command(line, answer);
        else
            add_statement(line, answer);
    }
    while (answer.version.ends_with(' ')) answer.version.pop_back();
    return answer;
}

std::string commands_of(const std::string& text) {
    std::string commands, line;
    for (std::istringstream lines(text); std::getline(lines, line);)
        if (line.starts_with(' ')) commands += line + "\n";
    return commands;
}

std::vector<fs::path> directories_of(std::string_view list) {
    std::vector<fs::path> directories;
    while (!list.empty()) {
        const auto end = std::min(list.find(':'), list.size());
        if (end > 0) directories.emplace_back(list.substr(0, end));
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return directories;
}

}  // namespace kiln
