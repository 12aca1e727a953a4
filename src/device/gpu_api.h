// SPDX-License-Identifier: Apache-2.0
//
// What the CUDA driver API and the HIP runtime API have in common: types and values that are the same in both, a
// table of functions that is filled from a library opened at run time, and errors that name the call.
// cuda_api.h and hip_api.h list the functions of each.
#pragma once

#include <string>
#include <string_view>

#include "base/dynamic_library.h"

namespace kiln::gpu {

using Result = int;
using ModuleHandle = struct ModuleOpaque*;
using FunctionHandle = struct FunctionOpaque*;
using StreamHandle = struct StreamOpaque*;
using EventHandle = struct EventOpaque*;
using GraphHandle = struct GraphOpaque*;
using GraphNodeHandle = struct GraphNodeOpaque*;
using GraphExecHandle = struct GraphExecOpaque*;

enum : Result {
    kSuccess = 0,
    kErrorInvalidValue = 1,
    kErrorNoDevice = 100,
    kErrorInvalidDevice = 101,
    kErrorInvalidImage = 200,
    kErrorNotFound = 500,
};

enum FunctionAttribute : int {
    kFunctionMaxThreadsPerBlock = 0,
    kFunctionSharedBytes = 1,
    kFunctionLocalBytes = 3,
    kFunctionRegisters = 4,
};

enum PointerAttribute : int {
    kPointerMemoryType = 2,
    kPointerDevicePointer = 3,  ///< for kernels of the current context; none: kErrorInvalidValue
    kPointerDeviceOrdinal = 9,
};

enum : unsigned { kStreamNonBlocking = 1, kEventDefault = 0 };
enum CaptureMode : int { kCaptureThreadLocal = 1 };

// The members of a table of functions, from a list FUNCTIONS(required, optional) of (member, symbol, arguments): a
// pointer for each; Call, the function's name for each; resolve, which sets the pointers and returns the names of
// the required functions that the library lacks, separated by commas.
#define KILN_GPU_TABLE(FUNCTIONS)                        \
    FUNCTIONS(KILN_GPU_POINTER, KILN_GPU_POINTER)        \
    struct Call {                                        \
        FUNCTIONS(KILN_GPU_NAME, KILN_GPU_NAME)          \
    };                                                   \
    std::string resolve(const DynamicLibrary& library) { \
        std::string missing;                             \
        FUNCTIONS(KILN_GPU_REQUIRE, KILN_GPU_ACCEPT)     \
        return missing;                                  \
    }
#define KILN_GPU_POINTER(member, symbol, arguments) ::kiln::gpu::Result(*member) arguments = nullptr;
#define KILN_GPU_NAME(member, symbol, arguments) static constexpr const char* member = #symbol;
#define KILN_GPU_REQUIRE(member, symbol, arguments) \
    if (!library.resolve(member, #symbol)) missing += missing.empty() ? #symbol : ", " #symbol;
#define KILN_GPU_ACCEPT(member, symbol, arguments) library.resolve(member, #symbol);

/// "cuMemAlloc failed: out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2); asking for 8 bytes", with the hint behind it.
/// The version at the end of a symbol ("_v2") is left out.
[[noreturn]] void throw_failure(Result result, std::string_view symbol, const std::string& description,
                                std::string_view what, std::string_view hint);

/// An opened driver or runtime. Immutable once made; shared by all threads for the rest of the process.
/// Functions: a table with describe(Result), "out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2)", and
/// hint(Result), what else a message about it should say.
template <class Functions>
struct Api : Functions {
    DynamicLibrary library;
    std::string version;  ///< for people: "CUDA 13.0, driver 580.95.05"

    /// Throws DeviceError when `result` is no success; `call` is the function's symbol.
    void check(Result result, const char* call) const {
        if (result != kSuccess) fail(result, call);
    }
    /// Throws DeviceError. what: what was attempted, with its numbers; may be empty.
    [[noreturn]] void fail(Result result, const char* call, std::string_view what = {}) const {
        throw_failure(result, call, this->describe(result), what, this->hint(result));
    }
};

/// The Api that `open` fills in at the first call: it takes the Api and returns what is wrong, empty for nothing.
/// nullptr when something is; `reason`, when given, receives it.
template <class Api>
const Api* opened_once(std::string (*open)(Api&), std::string* reason) {
    struct Opened {
        Api api;
        std::string problem;
    };
    // Never destroyed: other static objects may free device memory after our own would be gone.
    static const Opened* const opened = [open] {
        auto* result = new Opened;
        result->problem = open(result->api);
        return result;
    }();
    if (reason != nullptr) *reason = opened->problem;
    return opened->problem.empty() ? &opened->api : nullptr;
}

}  // namespace kiln::gpu
