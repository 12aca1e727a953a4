// SPDX-License-Identifier: Apache-2.0
//
// The part of hipRTC's C interface that the worker uses, declared here so that building needs no ROCm
// header, and resolved from a library that is opened at run time. A test compares it with the real header.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/dynamic_library.h"

namespace kiln {

using HiprtcProgram = struct HiprtcProgramState*;
using HiprtcResult = int;
constexpr HiprtcResult kHiprtcSuccess = 0;
constexpr HiprtcResult kHiprtcOutOfMemory = 1;

struct HiprtcApi {
    const char* (*error_string)(HiprtcResult) = nullptr;
    HiprtcResult (*query_version)(int*, int*) = nullptr;
    HiprtcResult (*create_program)(HiprtcProgram*, const char* text, const char* name, int header_count,
                                   const char** headers, const char** include_names) = nullptr;
    HiprtcResult (*destroy_program)(HiprtcProgram*) = nullptr;
    HiprtcResult (*compile_program)(HiprtcProgram, int option_count, const char** options) = nullptr;
    HiprtcResult (*add_name_expression)(HiprtcProgram, const char* expression) = nullptr;
    /// For an added one, once it is compiled: valid as long as the program.
    HiprtcResult (*lowered_name)(HiprtcProgram, const char* expression, const char** name) = nullptr;
    HiprtcResult (*log_size)(HiprtcProgram, std::size_t*) = nullptr;
    HiprtcResult (*log)(HiprtcProgram, char*) = nullptr;
    HiprtcResult (*code_size)(HiprtcProgram, std::size_t*) = nullptr;
    HiprtcResult (*code)(HiprtcProgram, char*) = nullptr;

    // The code object manager below hipRTC knows the architectures; hipRTC itself dies on others.
    int (*isa_count)(std::size_t*) = nullptr;
    int (*isa_name)(std::size_t, const char**) = nullptr;

    DynamicLibrary library;
    DynamicLibrary object_manager;

    /// False with the reason in `error` when the library does not open or lacks a function.
    bool open(const std::string& path, std::string& error) {
        library = DynamicLibrary::open({path}, &error);
        if (!library) return false;
        library.keep_forever();
        const auto need = [&](auto*& function, const char* name) {
            if (!library.resolve(function, name))
                error += std::string(error.empty() ? "it lacks " : ", ") + name;
        };
        need(error_string, "hiprtcGetErrorString");
        need(query_version, "hiprtcVersion");
        need(create_program, "hiprtcCreateProgram");
        need(destroy_program, "hiprtcDestroyProgram");
        need(compile_program, "hiprtcCompileProgram");
        need(add_name_expression, "hiprtcAddNameExpression");
        need(lowered_name, "hiprtcGetLoweredName");
        need(log_size, "hiprtcGetProgramLogSize");
        need(log, "hiprtcGetProgramLog");
        need(code_size, "hiprtcGetCodeSize");
        need(code, "hiprtcGetCode");
        const std::string directory = library.path().parent_path().string() + "/";
        object_manager =
            DynamicLibrary::open({directory + "libamd_comgr.so.3", directory + "libamd_comgr.so.2"});
        object_manager.keep_forever();
        object_manager.resolve(isa_count, "amd_comgr_get_isa_count");
        object_manager.resolve(isa_name, "amd_comgr_get_isa_name");
        return error.empty();
    }

    /// "gfx90a", ...; empty when the library can't tell.
    std::vector<std::string> supported_archs() const {
        std::vector<std::string> archs;
        std::size_t count = 0;
        if (isa_count == nullptr || isa_name == nullptr || isa_count(&count) != 0) return archs;
        for (std::size_t i = 0; i < count; ++i) {
            const char* name = nullptr;  // "amdgcn-amd-amdhsa--gfx90a"
            if (isa_name(i, &name) != 0 || name == nullptr) continue;
            const std::string text = name;
            if (const auto position = text.rfind("gfx"); position != std::string::npos)
                archs.push_back(text.substr(position));
        }
        return archs;
    }
};

}  // namespace kiln
