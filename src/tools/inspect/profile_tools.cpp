// SPDX-License-Identifier: Apache-2.0
//
// Finds a profiler and builds its command line.
#include "inspect/profile_tools.h"

#include <kiln/error.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "base/config.h"
#include "base/file.h"
#include "base/words.h"
#include "inspect/profile_page.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

/// PARENT/PREFIX*/SUFFIX, the latest version first.
void add_versions(std::vector<fs::path>& directories, const fs::path& parent, const std::string& prefix,
                  const fs::path& suffix) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error))
        if (std::string file = it->path().filename().string(); file.starts_with(prefix))
            names.push_back(std::move(file));
    std::ranges::sort(names, [](const std::string& a, const std::string& b) { return is_older(b, a); });
    for (const std::string& one : names) directories.push_back((parent / one / suffix).lexically_normal());
}

std::vector<ProfileTool> tools_of(Backend backend) {
    switch (backend) {
        case Backend::cuda:
            return {ProfileTool::ncu};
        case Backend::hip:
            return {ProfileTool::rocprofv3, ProfileTool::rocprof};
        case Backend::host:
            break;
    }
    throw UsageError("the host has no hardware counters to profile with; choose the backend cuda or hip.");
}

}  // namespace

inline namespace KILN_ABI {

std::string_view name(ProfileTool tool) {
    switch (tool) {
        case ProfileTool::ncu:
            return "ncu";
        case ProfileTool::rocprofv3:
            return "rocprofv3";
        case ProfileTool::rocprof:
            break;
    }
    return "rocprof";
}

}  // namespace KILN_ABI

bool is_older(const std::string& a, const std::string& b) {
    const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
    std::size_t i = 0, j = 0;
    while (i < a.size() && j < b.size()) {
        if (!is_digit(a[i]) || !is_digit(b[j])) {
            if (a[i] != b[j]) return a[i] < b[j];
            ++i, ++j;
            continue;
        }
        const auto take = [&](const std::string& text, std::size_t& at) {
            while (at + 1 < text.size() && text[at] == '0' && is_digit(text[at + 1])) ++at;
            const std::size_t begin = at;
            while (at < text.size() && is_digit(text[at])) ++at;
            return text.substr(begin, at - begin);
        };
        const std::string left = take(a, i), right = take(b, j);
        if (left.size() != right.size()) return left.size() < right.size();
        if (left != right) return left < right;
    }
    return a.size() - i < b.size() - j;
}

std::vector<fs::path> profiler_directories(ProfileTool tool, const fs::path& root) {
    std::vector<fs::path> directories;
    if (tool != ProfileTool::ncu) {
        add_versions(directories, root / "opt", "rocm", "bin");
        return directories;
    }
    for (const fs::path& home : config::cuda_homes()) directories.push_back(home / "bin");
    add_versions(directories, root / "usr/local", "cuda", "bin");
    add_versions(directories, root / "opt/nvidia/nsight-compute", "", "");
    return directories;
}

std::optional<Profiler> find_profiler_in(ProfileTool tool, std::span<const fs::path> directories) {
    std::vector<fs::path> all = config::executable_path();
    all.insert(all.end(), directories.begin(), directories.end());
    for (const fs::path& directory : all) {
        const fs::path program = directory / name(tool);
        std::error_code error;
        if (fs::is_regular_file(program, error) && ::access(program.c_str(), X_OK) == 0)
            return Profiler{tool, program};
    }
    return std::nullopt;
}

inline namespace KILN_ABI {

std::optional<Profiler> find_profiler(Backend backend, std::optional<ProfileTool> tool) {
    const std::vector<ProfileTool> tools = tools_of(backend);
    if (tool && std::ranges::find(tools, *tool) == tools.end())
        throw UsageError(std::string(name(*tool)) + " is not a profiler for " + std::string(name(backend)) +
                         "; that has " + std::string(name(tools.front())) + ".");
    for (const ProfileTool one : tools)
        if (!tool || one == *tool)
            if (auto found = find_profiler_in(one, profiler_directories(one))) return found;
    return std::nullopt;
}

std::string why_no_profiler(Backend backend) {
    if (tools_of(backend).front() == ProfileTool::ncu)
        return "there is no Nsight Compute (ncu) here: not in PATH, not in /usr/local/cuda*/bin and not in "
               "/opt/nvidia/nsight-compute.\n"
               "It comes with every CUDA toolkit, and alone in the package cuda-nsight-compute-13-0 (or of "
               "another version) of NVIDIA's repository.";
    return "there is no rocprofv3 and no rocprof here: neither in PATH nor in /opt/rocm*/bin.\n"
           "rocprofv3 is in the package rocprofiler-sdk of AMD's repository, rocprof in rocprofiler.";
}

}  // namespace KILN_ABI

std::vector<std::string> profiler_command(const Profiler& profiler, const ProfileRequest& request,
                                          const std::vector<std::string>& counters, const fs::path& folder) {
    std::vector<std::string> command = {profiler.program.string()};
    const auto add = [&](std::initializer_list<std::string> words) { command.insert(command.end(), words); };
    switch (profiler.tool) {
        case ProfileTool::ncu:
            // Clocks are not changed, so as not to slow down other work on the device.
            add({"--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
                 "--target-processes", "all", "--kernel-name", request.kernel, "--metrics",
                 join(counters, ",")});
            break;
        case ProfileTool::rocprofv3:
            add({"--pmc"});
            command.insert(command.end(), counters.begin(), counters.end());
            add({"--output-format", "csv", "--output-directory", folder.string(), "--output-file", "kiln",
                 "--"});
            break;
        case ProfileTool::rocprof:
            write_text(folder / "counters.txt", "pmc: " + join(counters, " ") + "\n");
            add({"-i", (folder / "counters.txt").string(), "-o", (folder / "kiln.csv").string()});
            break;
    }
    command.insert(command.end(), request.command.begin(), request.command.end());
    return command;
}

std::string profiler_page(const Profiler& profiler, const std::string& output, const fs::path& folder) {
    if (profiler.tool == ProfileTool::ncu) return std::string(ncu_table(output));
    // Some versions of rocprofv3 add a folder (pass_1, the host's name).
    std::string page;
    std::error_code error;
    for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
        const std::string file = it->path().filename().string();
        const bool is_page = profiler.tool == ProfileTool::rocprof ? file == "kiln.csv"
                                                                   : file.ends_with("counter_collection.csv");
        if (is_page && page.empty()) page = read_text_if_exists(it->path()).value_or("");
    }
    return page;
}

std::string version_in(const std::string& text) {
    // The first word that begins with a digit and has a dot.
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = text.find_first_not_of(" \t\n", at);
        if (begin == std::string::npos) break;
        const std::size_t end = std::min(text.find_first_of(" \t\n", begin), text.size());
        std::string word = text.substr(begin, end - begin);
        const bool is_number = word.find_first_not_of("0123456789.") == std::string::npos;
        if (is_number && word.find('.') != std::string::npos && word.front() != '.') return word;
        at = end;
    }
    return {};
}

}  // namespace kiln
