// SPDX-License-Identifier: Apache-2.0
//
// The locations of profilers, and their command lines.
#pragma once

#include <kiln/tools/profile.h>

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kiln {

/// The directories in which a tool is searched after those of PATH; tests replace "/" by `root`.
std::vector<std::filesystem::path> profiler_directories(ProfileTool tool,
                                                        const std::filesystem::path& root = "/");

/// The first directory with the program: of PATH, then of these.
std::optional<Profiler> find_profiler_in(ProfileTool tool,
                                         std::span<const std::filesystem::path> directories);

/// The order of directory names by their numbers: cuda-13.0 after cuda-9.2.
bool is_older(const std::string& a, const std::string& b);

/// The whole command line; `folder` receives what the tool writes into files.
std::vector<std::string> profiler_command(const Profiler& profiler, const ProfileRequest& request,
                                          const std::vector<std::string>& counters,
                                          const std::filesystem::path& folder);
/// The page: the printed text, or the file in the folder. Empty: none.
std::string profiler_page(const Profiler& profiler, const std::string& output,
                          const std::filesystem::path& folder);

/// "2025.3.1.0" of "Version 2025.3.1.0 (build 36398880)"; empty: none.
std::string version_in(const std::string& text);

}  // namespace kiln
