// SPDX-License-Identifier: Apache-2.0
#include "compile/missing_header.h"

#include <algorithm>
#include <array>

#include "base/words.h"

namespace kiln {
namespace {

/// What stands before and behind the name.
struct Message {
    std::string_view before, behind;
};
constexpr auto kMessages = std::to_array<Message>({
    {"could not open source file \"", "\""},           // NVRTC
    {"cannot open source file \"", "\""},              // NVRTC 13
    {"fatal error: '", "' file not found"},            // clang, hipRTC
    {"fatal error: ", ": No such file or directory"},  // GCC
});

/// The beginning of a header's name, and who has it.
struct Owner {
    std::string_view prefix, owner;
};
constexpr std::string_view kCccl =
    "CCCL, which is part of the CUDA toolkit and is the Python package nvidia-cuda-cccl";
constexpr std::string_view kRuntime = "the CUDA toolkit and the Python package nvidia-cuda-runtime";
constexpr std::string_view kCutlass =
    "CUTLASS, in its directory include, or in cutlass_library/source/include of the Python package "
    "nvidia-cutlass";
constexpr auto kOwners = std::to_array<Owner>({
    {"cub/", kCccl},
    {"thrust/", kCccl},
    {"cuda/", kCccl},
    {"nv/", kCccl},
    {"cuda_", kRuntime},
    {"cooperative_groups", kRuntime},
    {"vector_", kRuntime},
    {"mma.h", kRuntime},
    {"crt/", kRuntime},
    {"curand", "the CUDA toolkit and the Python package nvidia-curand"},
    {"cutlass/", kCutlass},
    {"cute/", kCutlass},
    {"rocprim/", "rocPRIM (package librocprim-dev of Debian and Ubuntu, rocprim-dev of AMD)"},
    {"hipcub/", "hipCUB (package libhipcub-dev of Debian and Ubuntu, hipcub-dev of AMD)"},
    {"rocwmma/", "rocWMMA (package rocwmma-dev of AMD)"},
});

}  // namespace

std::optional<std::string> missing_header(std::string_view log) {
    for (const Message& message : kMessages) {
        for (std::size_t at = log.find(message.before); at != std::string_view::npos;
             at = log.find(message.before, at)) {
            at += message.before.size();
            const std::string_view line = log.substr(at, log.find('\n', at) - at);
            const std::size_t end = line.find(message.behind);
            if (end != std::string_view::npos && end > 0) return std::string(line.substr(0, end));
        }
    }
    return std::nullopt;
}

std::string missing_header_advice(const std::string& name,
                                  const std::vector<std::filesystem::path>& searched) {
    std::vector<std::string> places = {"the template's directory"};
    for (const auto& directory : searched) places.push_back(directory.string());
    std::string advice =
        name + " was looked for in " + enumerate(places) +
        ". More directories are named by --include-dir, ServiceOptions::include_directories, "
        "KILN_INCLUDE_PATH, or a line `//@ include_dir \"DIR\"` in the template.";
    const auto owner =
        std::ranges::find_if(kOwners, [&](const Owner& one) { return name.starts_with(one.prefix); });
    if (owner != kOwners.end()) advice += " " + name + " belongs to " + std::string(owner->owner) + ".";
    return advice;
}

}  // namespace kiln
