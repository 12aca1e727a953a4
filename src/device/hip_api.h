// SPDX-License-Identifier: Apache-2.0
//
// The functions of the HIP runtime that Kiln uses, by our own declarations, so that the build needs no
// ROCm header. The library is opened at the first use and stays open. tests/unit/hip_api_test.cpp holds
// every declaration here against <hip/hip_runtime_api.h> where that is installed (ROCm 5.2). The
// enumerators below have the same values in ROCm 5, 6 and 7: names that were dropped left a gap.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/dynamic_library.h"

namespace kiln::hip {

using Result = int;
using DevicePointer = void*;
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
};

enum DeviceAttribute : int {
    kL2CacheSize = 19,
    kMaxBlocksPerMultiprocessor = 25,
    kMaxGridX = 29,
    kMaxGridY = 30,
    kMaxGridZ = 31,
    kMaxThreadsPerBlock = 56,
    kMaxThreadsPerMultiprocessor = 57,
    kMultiprocessorCount = 63,
    kMaxRegistersPerBlock = 71,
    kMaxSharedPerBlock = 74,
    kWarpSize = 87,
    kMaxSharedPerMultiprocessor = 10002,
};

enum FunctionAttribute : int {
    kFunctionMaxThreadsPerBlock = 0,
    kFunctionSharedBytes = 1,
    kFunctionLocalBytes = 3,
    kFunctionRegisters = 4,
};

enum : unsigned { kStreamNonBlocking = 1, kEventDefault = 0 };
enum CaptureMode : int { kCaptureThreadLocal = 1 };

// The name of the architecture is only in a structure that changed with ROCm 6, which then got a
// function of its own: hipGetDevicePropertiesR0600. Kiln gives either a buffer that is ample for both and
// reads the name at its offset.
constexpr std::size_t kPropertiesBufferBytes = 8192;
constexpr std::size_t kArchNameOffset = 396;        // hipDeviceProp_t of ROCm 5
constexpr std::size_t kArchNameOffsetR0600 = 1160;  // hipDeviceProp_tR0600 of ROCm 6 and 7
constexpr std::size_t kArchNameBytes = 256;

// required(member, symbol, arguments): a runtime without it is too old. optional: null where missing.
// clang-format off
#define KILN_HIP_FUNCTIONS(required, optional)                                                             \
    required(init, hipInit, (unsigned))                                                                    \
    required(runtime_get_version, hipRuntimeGetVersion, (int*))                                            \
    required(device_get_count, hipGetDeviceCount, (int*))                                                  \
    required(device_get_name, hipDeviceGetName, (char*, int, int))                                         \
    required(device_total_mem, hipDeviceTotalMem, (std::size_t*, int))                                     \
    required(device_get_attribute, hipDeviceGetAttribute, (int*, DeviceAttribute, int))                    \
    required(device_get_properties, hipGetDeviceProperties, (void*, int))                                  \
    optional(device_get_properties_r0600, hipGetDevicePropertiesR0600, (void*, int))                       \
    required(get_device, hipGetDevice, (int*))                                                             \
    required(set_device, hipSetDevice, (int))                                                              \
    required(device_synchronize, hipDeviceSynchronize, ())                                                 \
    required(mem_get_info, hipMemGetInfo, (std::size_t*, std::size_t*))                                    \
    required(mem_alloc, hipMalloc, (void**, std::size_t))                                                  \
    required(mem_free, hipFree, (void*))                                                                   \
    required(memcpy_to_device, hipMemcpyHtoDAsync, (DevicePointer, void*, std::size_t, StreamHandle))      \
    required(memcpy_from_device, hipMemcpyDtoHAsync, (void*, DevicePointer, std::size_t, StreamHandle))    \
    required(memset_d8, hipMemsetD8Async, (DevicePointer, unsigned char, std::size_t, StreamHandle))       \
    required(memset_d32, hipMemsetD32Async, (DevicePointer, int, std::size_t, StreamHandle))               \
    required(stream_create, hipStreamCreateWithFlags, (StreamHandle*, unsigned))                           \
    required(stream_destroy, hipStreamDestroy, (StreamHandle))                                             \
    required(stream_synchronize, hipStreamSynchronize, (StreamHandle))                                     \
    required(stream_wait_event, hipStreamWaitEvent, (StreamHandle, EventHandle, unsigned))                 \
    required(event_create, hipEventCreateWithFlags, (EventHandle*, unsigned))                              \
    required(event_destroy, hipEventDestroy, (EventHandle))                                                \
    required(event_record, hipEventRecord, (EventHandle, StreamHandle))                                    \
    required(event_synchronize, hipEventSynchronize, (EventHandle))                                        \
    required(event_elapsed_time, hipEventElapsedTime, (float*, EventHandle, EventHandle))                  \
    required(module_load_data, hipModuleLoadData, (ModuleHandle*, const void*))                            \
    required(module_unload, hipModuleUnload, (ModuleHandle))                                               \
    required(module_get_function, hipModuleGetFunction, (FunctionHandle*, ModuleHandle, const char*))      \
    required(function_get_attribute, hipFuncGetAttribute, (int*, FunctionAttribute, FunctionHandle))       \
    required(occupancy_blocks, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor,                         \
             (int*, FunctionHandle, int, std::size_t))                                                     \
    required(launch_kernel, hipModuleLaunchKernel,                                                         \
             (FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,        \
              StreamHandle, void**, void**))                                                               \
    required(stream_begin_capture, hipStreamBeginCapture, (StreamHandle, CaptureMode))                     \
    required(stream_end_capture, hipStreamEndCapture, (StreamHandle, GraphHandle*))                        \
    required(graph_get_nodes, hipGraphGetNodes, (GraphHandle, GraphNodeHandle*, std::size_t*))             \
    required(graph_instantiate, hipGraphInstantiate,                                                       \
             (GraphExecHandle*, GraphHandle, GraphNodeHandle*, char*, std::size_t))                        \
    required(graph_destroy, hipGraphDestroy, (GraphHandle))                                                \
    required(graph_launch, hipGraphLaunch, (GraphExecHandle, StreamHandle))                                \
    required(graph_exec_destroy, hipGraphExecDestroy, (GraphExecHandle))
// clang-format on

/// The opened runtime. Immutable once made; shared by all threads for the rest of the process.
struct Api {
#define KILN_DECLARE(member, symbol, arguments) Result(*member) arguments = nullptr;
    KILN_HIP_FUNCTIONS(KILN_DECLARE, KILN_DECLARE)
#undef KILN_DECLARE
    const char* (*get_error_name)(Result) = nullptr;
    const char* (*get_error_string)(Result) = nullptr;
    DynamicLibrary library;
    std::string version;  ///< for people: "HIP 5.2.21153"

    /// Throws DeviceError when `result` is no success; `call` is the runtime's function.
    void check(Result result, const char* call) const {
        if (result != kSuccess) fail(result, call);
    }
    /// Throws DeviceError. what: what was attempted, with its numbers; may be empty.
    [[noreturn]] void fail(Result result, const char* call, std::string_view what = {}) const;
    /// "out of memory (hipErrorOutOfMemory, 2)"
    std::string describe(Result result) const;
};

/// The runtime, opened and initialised at the first call. nullptr when there is none that works;
/// `reason`, when given, then receives one line on why. A runtime without a device counts as none.
const Api* api(std::string* reason = nullptr);

/// The architecture's name without its features: "gfx90a" of "gfx90a:sramecc+:xnack-". Throws
/// DeviceError when the runtime gives something else.
std::string arch_name(const Api& api, int device);

}  // namespace kiln::hip
