// SPDX-License-Identifier: Apache-2.0
//
// nvJitLink: LTO-IR of a template and of its callers' functions -> a cubin, in this process and without a GPU. The part of its C
// interface that Kiln uses is declared here, and resolved from a library that is opened at run time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/dynamic_library.h"
#include "compile/library_search.h"

namespace kiln {

using NvJitLinkHandle = struct NvJitLinkState*;
using NvJitLinkResult = int;
constexpr NvJitLinkResult kNvJitLinkSuccess = 0;

enum class NvJitLinkInput : int { ltoir = 3, fatbin = 4 };

/// An open nvJitLink. Its functions may be called from any thread. Once opened it stays in the process.
struct NvJitLinkApi {
    /// Throws BuildError when the library lacks a function.
    static NvJitLinkApi open(DynamicLibrary library);

    NvJitLinkResult (*create)(NvJitLinkHandle*, unsigned option_count, const char** options) = nullptr;
    NvJitLinkResult (*destroy)(NvJitLinkHandle*) = nullptr;
    NvJitLinkResult (*add_data)(NvJitLinkHandle, NvJitLinkInput, const void* data, std::size_t bytes,
                                const char* name) = nullptr;
    NvJitLinkResult (*complete)(NvJitLinkHandle) = nullptr;
    NvJitLinkResult (*cubin_size)(NvJitLinkHandle, std::size_t*) = nullptr;
    NvJitLinkResult (*cubin)(NvJitLinkHandle, void*) = nullptr;
    NvJitLinkResult (*error_log_size)(NvJitLinkHandle, std::size_t*) = nullptr;
    NvJitLinkResult (*error_log)(NvJitLinkHandle, char*) = nullptr;
    NvJitLinkResult (*info_log_size)(NvJitLinkHandle, std::size_t*) = nullptr;
    NvJitLinkResult (*info_log)(NvJitLinkHandle, char*) = nullptr;

    DynamicLibrary library;
};

/// Where it is looked for: next to NVRTC, in the wheel of its own next to that, then in NVRTC's places.
LibrarySearch nvjitlink_search(const std::filesystem::path& nvrtc,
                               const std::vector<std::filesystem::path>& directories);

/// Code is generated at the link: the options of the compile that are about it, as nvJitLink has them.
std::vector<std::string> nvjitlink_options(const std::string& arch,
                                           const std::vector<std::string>& compiled_with);

/// Bytes that are linked, LTO-IR or a fatbin, and their name in messages.
struct LinkInput {
    std::string_view bytes;
    std::string name;
};

struct LinkedCubin {
    std::string bytes;  ///< empty: it failed
    std::string log;    ///< errors or remarks
};
LinkedCubin link_ltoir(const NvJitLinkApi& api, const std::vector<std::string>& options,
                       const std::vector<LinkInput>& inputs);

}  // namespace kiln
