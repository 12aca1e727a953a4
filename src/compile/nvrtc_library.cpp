// SPDX-License-Identifier: Apache-2.0
#include "compile/nvrtc_library.h"

#include <kiln/error.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "base/config.h"
#include "base/dynamic_library.h"
#include "format/format.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

// The names of builtins that the library may open: those of its major version, or of any when the file's name has
// none.
std::vector<std::string> builtins_names(const fs::path& library) {
    constexpr int kNewestMajor = 13, kOldestMajor = 11, kMinors = 10;
    std::error_code error;
    const std::string name = fs::canonical(library, error).filename().string();
    constexpr std::string_view kStem = "libnvrtc.so.";
    const int major = name.starts_with(kStem) ? std::atoi(name.c_str() + kStem.size()) : 0;
    std::vector<std::string> names;
    for (int m = major > 0 ? major : kNewestMajor; m >= (major > 0 ? major : kOldestMajor); --m) {
        for (int minor = 0; minor < kMinors; ++minor)
            names.push_back(formatted("libnvrtc-builtins.so.{}.{}", m, minor));
    }
    return names;
}

}  // namespace

LibrarySearch nvrtc_search() {
    LibrarySearch search;
    search.product = "NVRTC";
    search.variable = "KILN_NVRTC";
    search.chosen = config::nvrtc_library();
    search.names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};
    search.remedy =
        "Install the CUDA toolkit, or the Python package nvidia-cuda-nvrtc (nvidia-cuda-nvrtc-cu12 for "
        "CUDA 12): next to the package kiln, as 'pip install kiln[cuda]' does, or elsewhere, with KILN_NVRTC "
        "set to "
        "the libnvrtc.so.* file in it.";
    search.directories = config::library_path();
    // Its wheel, where Kiln was installed from one: site-packages/kiln and site-packages/nvidia/cu13/lib, or cuda_nvrtc.
    for (const auto& wheel : versioned_directories(own_directory().parent_path() / "nvidia", "cu"))
        search.directories.push_back(wheel / "lib");
    auto toolkits = config::cuda_homes();
    toolkits.emplace_back("/usr/local/cuda");
    for (auto& toolkit : versioned_directories("/usr/local", "cuda-")) toolkits.push_back(std::move(toolkit));
    for (const auto& toolkit : toolkits) {
        search.directories.push_back(toolkit / "lib64");
        for (const char* platform : {"x86_64-linux", "sbsa-linux", "aarch64-linux"})
            search.directories.push_back(toolkit / "targets" / platform / "lib");
    }
    for (const char* directory : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"})
        search.directories.emplace_back(directory);
    return search;
}

void add_nvrtc_builtins(const fs::path& library, CompilerObjects& objects) {
    const auto names = builtins_names(library);
    bool any = false;
    std::error_code error;
    for (const auto& name : names) {
        const auto file = library.parent_path() / name;
        if (!fs::is_regular_file(file, error)) continue;
        objects.add_alone(file);
        any = true;
    }
    if (!any) objects.add_opened_alone(library, names);
}

std::vector<fs::path> cuda_include_directories() {
    std::vector<fs::path> roots;
    std::error_code error;
    try {
        if (const auto library = nvrtc_search().find()) {
            // .../lib64, .../lib, .../targets/x86_64-linux/lib; nvidia/cu13/lib, nvidia/cuda_nvrtc/lib of the wheels
            const fs::path root = fs::canonical(*library, error).parent_path().parent_path();
            roots.push_back(root);
            roots.push_back(root.parent_path() / "cuda_runtime");
            roots.push_back(root.parent_path() / "cuda_cccl");
        }
    } catch (const BuildError&) {
        // The one that was chosen is not there: what is packed may serve.
    }
    for (auto& home : config::cuda_homes()) roots.push_back(std::move(home));
    roots.emplace_back("/usr/local/cuda");
    std::vector<fs::path> directories;
    for (const fs::path& root : roots) {
        for (const fs::path& directory : {root / "include" / "cccl", root / "include"}) {
            const fs::path real = fs::canonical(directory, error);
            if (error || real == "/usr/include")
                continue;  // where distributions put it among everything else
            if (std::find(directories.begin(), directories.end(), real) == directories.end())
                directories.push_back(real);
        }
    }
    return directories;
}

}  // namespace kiln
