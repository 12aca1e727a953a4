// SPDX-License-Identifier: Apache-2.0
//
// Searches the libraries in the loader's directories, then in those of CUDA.
#include "bench/cublas_api.h"

#include <kiln/error.h>

#include <algorithm>
#include <vector>

#include "base/config.h"
#include "format/format.h"

namespace kiln::cublas {
namespace {

std::vector<std::string> places_of(const std::string& name) {
    std::vector<std::filesystem::path> directories;
    for (const std::filesystem::path& home : config::cuda_homes()) directories.push_back(home / "lib64");
    directories.emplace_back("/usr/local/cuda/lib64");
    std::vector<std::string> names;
    for (const char* version : {".so.13", ".so.12", ".so.11"}) {
        names.push_back(name + version);
        for (const std::filesystem::path& directory : directories)
            names.push_back((directory / (name + version)).string());
    }
    return names;
}

/// cublasLtGetVersion: 130101 is 13.1.1, and 12.3.4 is 120304.
std::string version_text(std::size_t version) {
    return formatted("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

/// The first of the loader's error lines; the others are about other versions.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

struct Opened {
    Api api;
    std::string problem;
};

void open(Opened& opened) {
    Api& api = opened.api;
    std::string error;
    // cuBLAS needs cublasLt of the same version, which is loaded first.
    api.lt_library = DynamicLibrary::open(places_of("libcublasLt"), &error);
    if (api.lt_library) api.library = DynamicLibrary::open(places_of("libcublas"), &error);
    if (!api.lt_library || !api.library) {
        opened.problem = std::string(api.lt_library ? "libcublas" : "libcublasLt") +
                         " could not be opened (" + first_line(error) + ")";
        return;
    }
    api.lt_library.keep_forever();
    api.library.keep_forever();
    std::string missing;
#define KILN_RESOLVE_LT(member, symbol, result, arguments) \
    if (!api.lt_library.resolve(api.member, #symbol)) missing += missing.empty() ? #symbol : ", " #symbol;
#define KILN_RESOLVE(member, symbol, result, arguments) \
    if (!api.library.resolve(api.member, #symbol)) missing += missing.empty() ? #symbol : ", " #symbol;
    KILN_CUBLASLT_FUNCTIONS(KILN_RESOLVE_LT)
    KILN_CUBLAS_FUNCTIONS(KILN_RESOLVE)
#undef KILN_RESOLVE_LT
#undef KILN_RESOLVE
    if (!missing.empty())
        opened.problem = api.lt_library.path().string() + " and its cuBLAS lack " + missing;
    else
        api.version = version_text(api.lt_version());
}

}  // namespace

void Api::fail(Status status, const char* call) const {
    const char* const name = lt_status_name == nullptr ? nullptr : lt_status_name(status);
    throw DeviceError(formatted("{} failed: {} ({})", call, name == nullptr ? "status" : name, status), call,
                      status);
}

const Api* api(std::string* reason) {
    static const Opened* const opened = [] {
        auto* result = new Opened;  // never destroyed: the libraries do not survive being unloaded
        open(*result);
        return result;
    }();
    *reason = opened->problem;
    return opened->problem.empty() ? &opened->api : nullptr;
}

}  // namespace kiln::cublas
