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

#include "device/gpu_api.h"

namespace kiln::hip {

using namespace gpu;

using DevicePointer = void*;

enum DeviceAttribute : int {
    kL2CacheSize = 19,
    kMaxBlocksPerMultiprocessor = 25,
    kMaxGridX = 29,
    kMaxGridY = 30,
    kMaxGridZ = 31,
    kMaxThreadsPerBlock = 56,
    kMaxThreadsPerMultiprocessor = 57,
    kMultiprocessorCount = 63,
    kPageableMemoryAccess = 65,
    kMaxRegistersPerBlock = 71,
    kMaxSharedPerBlock = 74,
    kWarpSize = 87,
    kMaxSharedPerMultiprocessor = 10002,
};

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
    required(synchronize, hipDeviceSynchronize, ())                                                 \
    required(mem_get_info, hipMemGetInfo, (std::size_t*, std::size_t*))                                    \
    required(mem_alloc, hipMalloc, (void**, std::size_t))                                                  \
    required(mem_free, hipFree, (void*))                                                                   \
    required(memcpy_to_device, hipMemcpyHtoDAsync, (DevicePointer, void*, std::size_t, StreamHandle))      \
    required(memcpy_from_device, hipMemcpyDtoHAsync, (void*, DevicePointer, std::size_t, StreamHandle))    \
    required(memcpy_on_device, hipMemcpyDtoDAsync,                                                         \
             (DevicePointer, DevicePointer, std::size_t, StreamHandle))                                    \
    required(memset_d8, hipMemsetD8Async, (DevicePointer, unsigned char, std::size_t, StreamHandle))       \
    required(memset_d32, hipMemsetD32Async, (DevicePointer, int, std::size_t, StreamHandle))               \
    optional(pointer_get_attribute, hipPointerGetAttribute, (void*, PointerAttribute, DevicePointer))      \
    required(stream_create, hipStreamCreateWithFlags, (StreamHandle*, unsigned))                           \
    required(stream_create_with_priority, hipStreamCreateWithPriority, (StreamHandle*, unsigned, int))     \
    required(priority_range, hipDeviceGetStreamPriorityRange, (int*, int*))                                \
    optional(stream_get_device, hipStreamGetDevice, (StreamHandle, int*))                                  \
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
    required(module_get_global, hipModuleGetGlobal,                                                        \
             (DevicePointer*, std::size_t*, ModuleHandle, const char*))                                    \
    required(function_get_attribute, hipFuncGetAttribute, (int*, FunctionAttribute, FunctionHandle))       \
    required(occupancy_blocks, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor,                         \
             (int*, FunctionHandle, int, std::size_t))                                                     \
    required(launch_kernel, hipModuleLaunchKernel,                                                         \
             (FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,        \
              StreamHandle, void**, void**))                                                               \
    optional(launch_cooperative_kernel, hipModuleLaunchCooperativeKernel,                                  \
             (FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,        \
              StreamHandle, void**))                                                                       \
    required(stream_begin_capture, hipStreamBeginCapture, (StreamHandle, CaptureMode))                     \
    required(stream_is_capturing, hipStreamIsCapturing, (StreamHandle, int*))                              \
    optional(mem_alloc_async, hipMallocAsync, (DevicePointer*, std::size_t, StreamHandle))                 \
    optional(mem_free_async, hipFreeAsync, (DevicePointer, StreamHandle))                                  \
    required(stream_end_capture, hipStreamEndCapture, (StreamHandle, GraphHandle*))                        \
    required(graph_get_nodes, hipGraphGetNodes, (GraphHandle, GraphNodeHandle*, std::size_t*))             \
    required(graph_instantiate, hipGraphInstantiate,                                                       \
             (GraphExecHandle*, GraphHandle, GraphNodeHandle*, char*, std::size_t))                        \
    required(graph_destroy, hipGraphDestroy, (GraphHandle))                                                \
    required(graph_launch, hipGraphLaunch, (GraphExecHandle, StreamHandle))                                \
    required(graph_exec_destroy, hipGraphExecDestroy, (GraphExecHandle))
// clang-format on

struct Functions {
    KILN_GPU_TABLE(KILN_HIP_FUNCTIONS)
    const char* (*get_error_name)(Result) = nullptr;
    const char* (*get_error_string)(Result) = nullptr;

    std::string describe(Result result) const;
    static std::string_view hint(Result) { return {}; }
};
using Api = gpu::Api<Functions>;

/// The runtime, opened and initialised at the first call. nullptr when there is none that works;
/// `reason`, when given, then receives one line on why. A runtime without a device counts as none.
const Api* api(std::string* reason = nullptr);

/// The architecture's name without its features: "gfx90a" of "gfx90a:sramecc+:xnack-". Throws
/// DeviceError when the runtime gives something else.
std::string arch_name(const Api& api, int device);

}  // namespace kiln::hip
