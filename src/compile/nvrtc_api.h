// SPDX-License-Identifier: Apache-2.0
//
// The part of NVRTC's C interface that Kiln uses, declared here so that building needs no CUDA header,
// and resolved from a library that is opened at run time. A test compares it with the real header.
#pragma once

#include <cstddef>
#include <filesystem>

#include "base/dynamic_library.h"

namespace kiln {

using NvrtcProgram = struct NvrtcProgramState*;
using NvrtcResult = int;
constexpr NvrtcResult kNvrtcSuccess = 0;
constexpr NvrtcResult kNvrtcOutOfMemory = 1;
constexpr NvrtcResult kNvrtcInvalidOption = 5;
constexpr NvrtcResult kNvrtcCompilation = 6;
constexpr NvrtcResult kNvrtcBuiltinOperationFailure = 7;

/// An open NVRTC. Its functions may be called from any thread. Once opened it stays in the process.
struct NvrtcApi {
    /// Throws BuildError when the file does not open or lacks a function. The builtins library that
    /// belongs to it is opened from the same directory, so that NVRTC finds that one and no other.
    static NvrtcApi open(DynamicLibrary library);

    const char* (*error_string)(NvrtcResult) = nullptr;
    NvrtcResult (*query_version)(int*, int*) = nullptr;
    NvrtcResult (*supported_arch_count)(int*) = nullptr;
    NvrtcResult (*supported_archs)(int*) = nullptr;
    NvrtcResult (*create_program)(NvrtcProgram*, const char* text, const char* name, int header_count,
                                  const char* const* headers, const char* const* include_names) = nullptr;
    NvrtcResult (*destroy_program)(NvrtcProgram*) = nullptr;
    NvrtcResult (*compile_program)(NvrtcProgram, int option_count, const char* const* options) = nullptr;
    NvrtcResult (*add_name_expression)(NvrtcProgram, const char* expression) = nullptr;
    /// For an added one, once it is compiled: valid as long as the program.
    NvrtcResult (*lowered_name)(NvrtcProgram, const char* expression, const char** name) = nullptr;
    NvrtcResult (*log_size)(NvrtcProgram, std::size_t*) = nullptr;
    NvrtcResult (*log)(NvrtcProgram, char*) = nullptr;
    NvrtcResult (*ptx_size)(NvrtcProgram, std::size_t*) = nullptr;
    NvrtcResult (*ptx)(NvrtcProgram, char*) = nullptr;
    NvrtcResult (*cubin_size)(NvrtcProgram, std::size_t*) = nullptr;
    NvrtcResult (*cubin)(NvrtcProgram, char*) = nullptr;
    NvrtcResult (*ltoir_size)(NvrtcProgram, std::size_t*) = nullptr;  ///< nullptr before CUDA 12
    NvrtcResult (*ltoir)(NvrtcProgram, char*) = nullptr;              ///< the same

    DynamicLibrary library;
    DynamicLibrary builtins;  ///< empty when it is not next to the library
    int major = 0;
    int minor = 0;
};

}  // namespace kiln
