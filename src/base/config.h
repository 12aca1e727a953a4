// SPDX-License-Identifier: Apache-2.0
//
// The environment, read here and nowhere else. Every variable that Kiln knows is listed here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kiln::config {

/// KILN_NVRTC: the NVRTC library to open.
std::optional<std::filesystem::path> nvrtc_library();
/// KILN_NVJITLINK: the nvJitLink library to open.
std::optional<std::filesystem::path> nvjitlink_library();
/// KILN_PCH: false for "0". Whether NVRTC precompiles headers of include directories.
bool precompiles();
/// KILN_HIPRTC: the library that holds hipRTC.
std::optional<std::filesystem::path> hiprtc_library();
/// KILN_HOST_CXX: the C++ compiler of the host backend.
std::optional<std::string> host_cxx();
/// KILN_COMPILE_WORKER: the worker program.
std::optional<std::filesystem::path> compile_worker();
/// KILN_CACHE_DIR, else $XDG_CACHE_HOME/kiln, else $HOME/.cache/kiln; nullopt when none is set.
std::optional<std::filesystem::path> cache_directory();
/// KILN_WISDOM, else $XDG_CONFIG_HOME/kiln/wisdom.txt, else $HOME/.config/kiln/wisdom.txt; nullopt when none is set.
std::optional<std::filesystem::path> wisdom_file();
/// KILN_CACHE_LIMIT: bytes, as a number or with KiB, MiB, GiB. Throws UsageError for anything else.
std::optional<std::uint64_t> cache_limit_bytes();
/// KILN_CACHE_SHARE: true for "group", false when not set. Throws UsageError for anything else.
bool cache_share_with_group();
/// KILN_SEED_PACKS: files separated by colons.
std::vector<std::filesystem::path> seed_packs();
/// KILN_REMOTE: the URL of a Redis server.
std::optional<std::string> remote_url();
/// KILN_REMOTE_MODE: true for "read-only", false for "read-write" and when not set. Throws UsageError.
bool remote_read_only();
/// KILN_REMOTE_PASSWORD_FILE, KILN_REMOTE_CA_FILE, KILN_REMOTE_KEY_FILE (signatures).
std::optional<std::filesystem::path> remote_password_file();
std::optional<std::filesystem::path> remote_ca_file();
std::optional<std::filesystem::path> remote_key_file();
/// KILN_REMOTE_TIMEOUT_MS: 1 to 60000. Throws UsageError for anything else.
std::optional<int> remote_timeout_ms();
/// KILN_WORKERS: how many worker processes compile at once; 0 when not set: one per core. 1 to 1024, else
/// throws UsageError.
int workers();
inline constexpr int kMostWorkers = 1024;
/// KILN_TEMPLATE_PATH: directories separated by colons.
std::vector<std::filesystem::path> template_directories();
/// KILN_INCLUDE_PATH: directories separated by colons.
std::vector<std::filesystem::path> include_directories();
/// KILN_HOST_THREADS: how many blocks of the host backend run at once; 0, as when not set: all cores. Throws UsageError
/// for what is no number up to 4096.
int host_threads();
/// KILN_HOST_SEED: permutes the order in which the threads of a block run; nullopt when not set. Throws UsageError for
/// what is no number.
std::optional<unsigned long long> host_seed();
/// KILN_HOST_IN_PROCESS: true for "1", false for "0" and when not set: kernels of the host run in the process that
/// launches them even where a child is asked for. Throws UsageError for anything else.
bool host_in_process();
/// KILN_VALIDATE: true for "1", false for "0", nullopt when not set. Throws UsageError for anything else.
std::optional<bool> validate();
/// KILN_NVTX: "1" or a library's path; nullopt for "0" and when not set.
std::optional<std::string> nvtx();
/// CUDA_HOME or CUDA_PATH.
std::vector<std::filesystem::path> cuda_homes();
/// LD_LIBRARY_PATH, split.
std::vector<std::filesystem::path> library_path();
/// PATH, split.
std::vector<std::filesystem::path> executable_path();
/// HOME.
std::optional<std::filesystem::path> home();
/// All variables that are set, as they are now: name and value.
std::vector<std::pair<std::string, std::string>> environment();

/// All of the above that begin with KILN_.
std::vector<std::string> known_variables();
/// Those that only tests and scripts read.
std::vector<std::string> other_variables();
/// Variables that are set, begin with KILN_, and are none of either: mistyped, perhaps.
std::vector<std::string> unknown_variables();

}  // namespace kiln::config
