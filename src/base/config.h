// SPDX-License-Identifier: Apache-2.0
//
// The environment, read here and nowhere else. Every variable that Kiln knows is listed here.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kiln::config {

/// KILN_NVRTC: the NVRTC library to open.
std::optional<std::filesystem::path> nvrtc_library();
/// KILN_HIPRTC: the library that holds hipRTC.
std::optional<std::filesystem::path> hiprtc_library();
/// KILN_HOST_CXX: the C++ compiler of the host backend.
std::optional<std::string> host_cxx();
/// KILN_COMPILE_WORKER: the worker program.
std::optional<std::filesystem::path> compile_worker();
/// KILN_CACHE_DIR, else $XDG_CACHE_HOME/kiln, else $HOME/.cache/kiln; nullopt when none is set.
std::optional<std::filesystem::path> cache_directory();
/// KILN_TEMPLATE_PATH: directories separated by colons.
std::vector<std::filesystem::path> template_directories();
/// KILN_HOST_THREADS: how many blocks of the host backend run at once; 0 when not set: all cores; at most
/// 4096.
int host_threads();
/// KILN_HOST_SEED: permutes the order in which the threads of a block run; nullopt when not set.
std::optional<unsigned long long> host_seed();
/// CUDA_HOME or CUDA_PATH.
std::vector<std::filesystem::path> cuda_homes();
/// LD_LIBRARY_PATH, split.
std::vector<std::filesystem::path> library_path();
/// PATH, split.
std::vector<std::filesystem::path> executable_path();
/// HOME.
std::optional<std::filesystem::path> home();

}  // namespace kiln::config
