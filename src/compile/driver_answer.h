// SPDX-License-Identifier: Apache-2.0
//
// What a C++ compiler's driver says of itself and of the commands that it would run (options -### and -v).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// The beginning of a line that states the driver's PATH. No driver prints it by itself.
constexpr std::string_view kPathOfDriver = "KILN_PATH=";

struct DriverAnswer {
    std::string version;  ///< "gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)"; empty: neither GCC nor Clang
    std::string target;   ///< "x86_64-linux-gnu"
    std::string driver;   ///< the program that would run the commands, as it names itself
    std::vector<std::string> programs;  ///< that it would run; those without a slash are looked for in PATH
    std::vector<std::string>
        named_files;  ///< absolute paths in the commands: what the linker loads, or links
    std::vector<std::string>
        option_files;  ///< from which it read options: GCC's specs, Clang's configuration
    std::vector<std::filesystem::path> program_directories;  ///< where GCC looks for programs and specs
    std::vector<std::filesystem::path> path;  ///< PATH of the driver, from a line of kPathOfDriver

    std::filesystem::path installed_in;                    ///< the directory that Clang takes for its own
    std::vector<std::filesystem::path> gcc_installations;  ///< that Clang found, which it takes headers from
    std::string gcc_version;                               ///< of the one that it takes: "12"

    bool is_clang() const { return version.find("clang") != std::string::npos; }
    /// Whether a program is looked for in PATH.
    bool needs_path() const;
};

DriverAnswer parse_driver_answer(const std::string& text);

/// The lines that are commands.
std::string commands_of(const std::string& text);

/// "/a:/b" -> /a, /b
std::vector<std::filesystem::path> directories_of(std::string_view list);

}  // namespace kiln
