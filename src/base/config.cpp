// SPDX-License-Identifier: Apache-2.0
//
// The environment, read here and nowhere else.
#include "base/config.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace kiln::config {
namespace {

// An empty variable counts as one that is not set.
std::optional<std::string> variable(const char* name) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
}

std::optional<std::filesystem::path> path_variable(const char* name) {
    auto value = variable(name);
    if (!value) return std::nullopt;
    return std::filesystem::path(*value);
}

std::vector<std::filesystem::path> path_list(const char* name) {
    std::vector<std::filesystem::path> paths;
    const auto value = variable(name);
    std::string_view rest = value ? std::string_view(*value) : std::string_view();
    while (!rest.empty()) {
        const auto colon = rest.find(':');
        const auto item = rest.substr(0, colon);
        if (!item.empty()) paths.emplace_back(item);
        if (colon == std::string_view::npos) break;
        rest.remove_prefix(colon + 1);
    }
    return paths;
}

}  // namespace

std::optional<std::filesystem::path> nvrtc_library() { return path_variable("KILN_NVRTC"); }
std::optional<std::filesystem::path> hiprtc_library() { return path_variable("KILN_HIPRTC"); }
std::optional<std::string> host_cxx() { return variable("KILN_HOST_CXX"); }
std::optional<std::filesystem::path> compile_worker() { return path_variable("KILN_COMPILE_WORKER"); }

std::optional<std::filesystem::path> cache_directory() {
    if (auto path = path_variable("KILN_CACHE_DIR")) return path;
    if (auto path = path_variable("XDG_CACHE_HOME")) return *path / "kiln";
    if (auto path = home()) return *path / ".cache" / "kiln";
    return std::nullopt;
}

std::vector<std::filesystem::path> template_directories() { return path_list("KILN_TEMPLATE_PATH"); }

int host_threads() {
    const auto value = variable("KILN_HOST_THREADS");
    constexpr long kMostThreads = 4096;
    return value ? static_cast<int>(std::clamp(std::strtol(value->c_str(), nullptr, 10), 0L, kMostThreads))
                 : 0;
}

std::optional<unsigned long long> host_seed() {
    const auto value = variable("KILN_HOST_SEED");
    if (!value) return std::nullopt;
    return std::strtoull(value->c_str(), nullptr, 0);
}

std::vector<std::filesystem::path> cuda_homes() {
    std::vector<std::filesystem::path> homes;
    for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
        if (auto path = path_variable(name)) homes.push_back(*path);
    }
    return homes;
}

std::vector<std::filesystem::path> library_path() { return path_list("LD_LIBRARY_PATH"); }
std::vector<std::filesystem::path> executable_path() { return path_list("PATH"); }
std::optional<std::filesystem::path> home() { return path_variable("HOME"); }

}  // namespace kiln::config
