// SPDX-License-Identifier: Apache-2.0
//
// The environment, read here and nowhere else.
#include "base/config.h"

#include <kiln/error.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/words.h"
#include "format/format.h"

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

// The XDG Base Directory Specification has relative ones ignored.
std::optional<std::filesystem::path> base_directory(const char* name) {
    auto path = path_variable(name);
    return path && path->is_absolute() ? path : std::nullopt;
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

// True for the second word, false for the first and when it is not set.
bool choice(const char* name, std::string_view no, std::string_view yes) {
    const auto value = variable(name);
    if (!value || *value == no) return false;
    if (*value == yes) return true;
    throw UsageError(std::string(name) + " is set to \"" + *value + "\"; it is either " + std::string(no) +
                     " or " + std::string(yes) + ".");
}

std::optional<int> whole(const char* name, int min, int max) {
    const auto value = variable(name);
    if (!value) return std::nullopt;
    int number = 0;
    const char* const end = value->data() + value->size();
    const auto [stop, error] = std::from_chars(value->data(), end, number);
    if (stop != end || error != std::errc() || number < min || number > max)
        throw UsageError(
            formatted("{} is set to \"{}\"; it is an integer from {} to {}.", name, *value, min, max));
    return number;
}

}  // namespace

std::optional<std::filesystem::path> nvrtc_library() { return path_variable("KILN_NVRTC"); }
std::optional<std::filesystem::path> nvjitlink_library() { return path_variable("KILN_NVJITLINK"); }
std::optional<std::filesystem::path> hiprtc_library() { return path_variable("KILN_HIPRTC"); }
std::optional<std::string> host_cxx() { return variable("KILN_HOST_CXX"); }
std::optional<std::filesystem::path> compile_worker() { return path_variable("KILN_COMPILE_WORKER"); }

std::optional<std::filesystem::path> cache_directory() {
    if (auto path = path_variable("KILN_CACHE_DIR")) return path;
    if (auto path = base_directory("XDG_CACHE_HOME")) return *path / "kiln";
    if (auto path = home()) return *path / ".cache" / "kiln";
    return std::nullopt;
}

std::optional<std::filesystem::path> wisdom_file() {
    if (auto path = path_variable("KILN_WISDOM")) return path;
    if (auto path = base_directory("XDG_CONFIG_HOME")) return *path / "kiln" / "wisdom.txt";
    if (auto path = home()) return *path / ".config" / "kiln" / "wisdom.txt";
    return std::nullopt;
}

std::optional<std::uint64_t> cache_limit_bytes() {
    const auto value = variable("KILN_CACHE_LIMIT");
    if (!value) return std::nullopt;
    const auto bytes = parse_bytes(*value);
    if (!bytes)
        throw UsageError("KILN_CACHE_LIMIT is set to \"" + *value +
                         "\", which is no size; write a number of bytes, or 500MiB, or 1GiB.");
    return bytes;
}
bool cache_share_with_group() { return choice("KILN_CACHE_SHARE", "no", "group"); }
std::vector<std::filesystem::path> seed_packs() { return path_list("KILN_SEED_PACKS"); }

std::optional<std::string> remote_url() { return variable("KILN_REMOTE"); }
bool remote_read_only() { return choice("KILN_REMOTE_MODE", "read-write", "read-only"); }
std::optional<std::filesystem::path> remote_password_file() {
    return path_variable("KILN_REMOTE_PASSWORD_FILE");
}
std::optional<std::filesystem::path> remote_ca_file() { return path_variable("KILN_REMOTE_CA_FILE"); }
std::optional<std::filesystem::path> remote_key_file() { return path_variable("KILN_REMOTE_KEY_FILE"); }
std::optional<int> remote_timeout_ms() { return whole("KILN_REMOTE_TIMEOUT_MS", 1, 60000); }

int workers() { return whole("KILN_WORKERS", 1, kMostWorkers).value_or(0); }

std::vector<std::filesystem::path> include_directories() { return path_list("KILN_INCLUDE_PATH"); }
std::vector<std::filesystem::path> template_directories() { return path_list("KILN_TEMPLATE_PATH"); }

int host_threads() { return whole("KILN_HOST_THREADS", 0, 4096).value_or(0); }

std::optional<unsigned long long> host_seed() {
    const auto value = variable("KILN_HOST_SEED");
    if (!value) return std::nullopt;
    std::string_view digits = *value;
    const bool is_hexadecimal = digits.starts_with("0x") || digits.starts_with("0X");
    if (is_hexadecimal) digits.remove_prefix(2);
    unsigned long long seed = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, seed, is_hexadecimal ? 16 : 10);
    if (digits.empty() || stop != end || error != std::errc())
        throw UsageError("KILN_HOST_SEED is set to \"" + *value +
                         "\"; it is an integer from 0 to 18446744073709551615, decimal or as 0x1f.");
    return seed;
}

bool precompiles() { return !variable("KILN_PCH") || choice("KILN_PCH", "0", "1"); }
bool host_in_process() { return choice("KILN_HOST_IN_PROCESS", "0", "1"); }

std::optional<bool> validate() {
    if (!variable("KILN_VALIDATE")) return std::nullopt;
    return choice("KILN_VALIDATE", "0", "1");
}

std::optional<std::string> nvtx() {
    auto wanted = variable("KILN_NVTX");
    if (!wanted || *wanted == "0") return std::nullopt;
    return wanted;
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

std::vector<std::string> known_variables() {
    return {"KILN_CACHE_DIR",
            "KILN_CACHE_LIMIT",
            "KILN_CACHE_SHARE",
            "KILN_COMPILE_WORKER",
            "KILN_HIPRTC",
            "KILN_HOST_CXX",
            "KILN_HOST_IN_PROCESS",
            "KILN_HOST_SEED",
            "KILN_HOST_THREADS",
            "KILN_INCLUDE_PATH",
            "KILN_NVJITLINK",
            "KILN_NVRTC",
            "KILN_NVTX",
            "KILN_PCH",
            "KILN_REMOTE",
            "KILN_REMOTE_CA_FILE",
            "KILN_REMOTE_KEY_FILE",
            "KILN_REMOTE_MODE",
            "KILN_REMOTE_PASSWORD_FILE",
            "KILN_REMOTE_TIMEOUT_MS",
            "KILN_SEED_PACKS",
            "KILN_TEMPLATE_PATH",
            "KILN_VALIDATE",
            "KILN_WISDOM",
            "KILN_WORKERS"};
}

std::vector<std::string> other_variables() {
    return {"KILN_MATRIX_DEBIAN",   "KILN_MATRIX_DIR",     "KILN_MATRIX_UBUNTU",  "KILN_PACKAGE_BUILD",
            "KILN_PACKAGE_ROOT",    "KILN_PYTHON_PACKAGE", "KILN_REQUIRE",        "KILN_TEST_CACHE_DIR",
            "KILN_TEST_SOURCE_DIR", "KILN_UPDATE_GOLDEN",  "KILN_WRITE_OCCUPANCY"};
}

std::vector<std::pair<std::string, std::string>> environment() {
    std::vector<std::pair<std::string, std::string>> variables;
    for (char** item = environ; item != nullptr && *item != nullptr; ++item) {
        const std::string_view text = *item;
        const auto equals = std::min(text.find('='), text.size());
        variables.emplace_back(text.substr(0, equals), text.substr(std::min(equals + 1, text.size())));
    }
    return variables;
}

std::vector<std::string> unknown_variables() {
    auto known = known_variables();
    for (std::string& other : other_variables()) known.push_back(std::move(other));
    std::vector<std::string> unknown;
    for (auto& [name, value] : environment()) {
        if (name.starts_with("KILN_") && std::find(known.begin(), known.end(), name) == known.end())
            unknown.push_back(std::move(name));
    }
    std::sort(unknown.begin(), unknown.end());
    return unknown;
}

}  // namespace kiln::config
