// SPDX-License-Identifier: Apache-2.0
//
// The functions of the CUDA driver that Kiln uses, by our own declarations, so that the build needs no
// CUDA header. The library is opened at the first use and stays open. tests/unit/cuda_api_test.cpp
// holds every declaration here against <cuda.h> wherever that is installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "device/gpu_api.h"

namespace kiln::cuda {

using namespace gpu;

using DeviceHandle = int;
using DevicePointer = unsigned long long;
using ContextHandle = struct ContextOpaque*;
using GreenContextHandle = struct GreenContextOpaque*;

enum : Result {
    kErrorDeinitialized = 4,
    kErrorInvalidContext = 201,
    kErrorInvalidHandle = 400,
    kErrorIllegalAddress = 700,
    kErrorLaunchTimeout = 702,
    kErrorContextIsDestroyed = 709,
    kErrorAssert = 710,
    kErrorHardwareStackError = 714,
    kErrorIllegalInstruction = 715,
    kErrorMisalignedAddress = 716,
    kErrorInvalidAddressSpace = 717,
    kErrorInvalidPc = 718,
    kErrorLaunchFailed = 719,
};

enum DeviceAttribute : int {
    kMaxThreadsPerBlock = 1,
    kMaxGridX = 5,
    kMaxGridY = 6,
    kMaxGridZ = 7,
    kMaxSharedPerBlock = 8,
    kWarpSize = 10,
    kMaxRegistersPerBlock = 12,
    kMultiprocessorCount = 16,
    kL2CacheSize = 38,
    kMaxThreadsPerMultiprocessor = 39,
    kComputeCapabilityMajor = 75,
    kComputeCapabilityMinor = 76,
    kMaxSharedPerMultiprocessor = 81,
    kMaxRegistersPerMultiprocessor = 82,
    kPageableMemoryAccess = 88,
    kMaxSharedPerBlockOptin = 97,
    kMaxBlocksPerMultiprocessor = 106,
    kClusterLaunch = 120,
};

// Of FunctionAttribute, those that HIP lacks.
constexpr auto kFunctionMaxDynamicSharedBytes = FunctionAttribute{8};
constexpr auto kFunctionNonPortableClusterAllowed = FunctionAttribute{14};

enum JitOption : int {
    kJitInfoLogBuffer = 3,
    kJitInfoLogBufferBytes = 4,
    kJitErrorLogBuffer = 5,
    kJitErrorLogBufferBytes = 6,
};

enum LaunchAttributeId : int {
    kLaunchAccessPolicyWindow = 1,
    kLaunchCooperative = 2,
    kLaunchClusterDimension = 4,
    kLaunchProgrammaticSerialization = 6,
    kLaunchPriority = 8,
};
enum AccessProperty : int { kAccessNormal = 0, kAccessStreaming = 1, kAccessPersisting = 2 };

struct AccessPolicyWindow {
    void* base;
    std::size_t bytes;
    float hit_ratio;
    AccessProperty hit, miss;
};

enum TensorMapType : int {
    kTensorMapUint8 = 0,
    kTensorMapUint16 = 1,
    kTensorMapUint32 = 2,
    kTensorMapInt32 = 3,
    kTensorMapUint64 = 4,
    kTensorMapInt64 = 5,
    kTensorMapFloat16 = 6,
    kTensorMapFloat32 = 7,
    kTensorMapFloat64 = 8,
    kTensorMapBfloat16 = 9,
};
enum TensorMapInterleave : int { kTensorMapInterleaveNone = 0 };
enum TensorMapSwizzle : int {
    kTensorMapSwizzleNone = 0,
    kTensorMapSwizzle32 = 1,
    kTensorMapSwizzle64 = 2,
    kTensorMapSwizzle128 = 3,
};
enum TensorMapPromotion : int { kTensorMapL2Bytes128 = 2, kTensorMapL2Bytes256 = 3 };
enum TensorMapFill : int { kTensorMapFillZero = 0 };

struct LaunchAttribute {
    LaunchAttributeId id;
    char padding[8 - sizeof(LaunchAttributeId)];
    union {
        char bytes[64];
        struct {
            unsigned x, y, z;
        } cluster;
        int programmatic_serialization;
        int cooperative;
        int priority;
        AccessPolicyWindow access_policy;
    } value;
};

struct LaunchConfig {
    unsigned grid_x, grid_y, grid_z;
    unsigned block_x, block_y, block_z;
    unsigned shared_bytes;
    StreamHandle stream;
    LaunchAttribute* attributes;
    unsigned attribute_count;
};

// required(member, symbol, arguments): a driver without it is too old. optional: null where missing
// (from CUDA 11.4: cuGraphInstantiateWithFlags; 11.8: cuLaunchKernelEx; 12.0: cuTensorMapEncodeTiled; 12.4:
// cuFuncLoad, cuFuncGetParamInfo, cuStreamGetGreenCtx).
// The symbol carries the version that the library exports: cuMemAlloc alone is a 32-bit relic.
// clang-format off
#define KILN_CUDA_FUNCTIONS(required, optional)                                                            \
    required(get_error_name, cuGetErrorName, (Result, const char**))                                       \
    required(get_error_string, cuGetErrorString, (Result, const char**))                                   \
    required(init, cuInit, (unsigned))                                                                     \
    required(driver_get_version, cuDriverGetVersion, (int*))                                               \
    required(device_get_count, cuDeviceGetCount, (int*))                                                   \
    required(device_get, cuDeviceGet, (DeviceHandle*, int))                                                \
    required(device_get_name, cuDeviceGetName, (char*, int, DeviceHandle))                                 \
    required(device_total_mem, cuDeviceTotalMem_v2, (std::size_t*, DeviceHandle))                          \
    required(device_get_attribute, cuDeviceGetAttribute, (int*, DeviceAttribute, DeviceHandle))            \
    required(primary_context_retain, cuDevicePrimaryCtxRetain, (ContextHandle*, DeviceHandle))             \
    required(primary_context_release, cuDevicePrimaryCtxRelease_v2, (DeviceHandle))                        \
    required(context_get_current, cuCtxGetCurrent, (ContextHandle*))                                       \
    required(context_set_current, cuCtxSetCurrent, (ContextHandle))                                        \
    required(context_get_device, cuCtxGetDevice, (DeviceHandle*))                                          \
    required(synchronize, cuCtxSynchronize, ())                                                    \
    required(mem_get_info, cuMemGetInfo_v2, (std::size_t*, std::size_t*))                                  \
    required(mem_alloc, cuMemAlloc_v2, (DevicePointer*, std::size_t))                                      \
    required(mem_free, cuMemFree_v2, (DevicePointer))                                                      \
    required(memcpy_to_device, cuMemcpyHtoDAsync_v2,                                                       \
             (DevicePointer, const void*, std::size_t, StreamHandle))                                      \
    required(memcpy_from_device, cuMemcpyDtoHAsync_v2, (void*, DevicePointer, std::size_t, StreamHandle))  \
    required(memcpy_on_device, cuMemcpyDtoDAsync_v2,                                                       \
             (DevicePointer, DevicePointer, std::size_t, StreamHandle))                                    \
    required(memset_d8, cuMemsetD8Async, (DevicePointer, unsigned char, std::size_t, StreamHandle))        \
    required(memset_d32, cuMemsetD32Async, (DevicePointer, unsigned, std::size_t, StreamHandle))           \
    required(pointer_get_attribute, cuPointerGetAttribute, (void*, PointerAttribute, DevicePointer))       \
    required(stream_create, cuStreamCreate, (StreamHandle*, unsigned))                                     \
    required(stream_create_with_priority, cuStreamCreateWithPriority, (StreamHandle*, unsigned, int))      \
    required(priority_range, cuCtxGetStreamPriorityRange, (int*, int*))                                    \
    required(stream_get_context, cuStreamGetCtx, (StreamHandle, ContextHandle*))                           \
    optional(stream_get_green_context, cuStreamGetGreenCtx, (StreamHandle, GreenContextHandle*))           \
    required(stream_destroy, cuStreamDestroy_v2, (StreamHandle))                                           \
    required(stream_synchronize, cuStreamSynchronize, (StreamHandle))                                      \
    required(stream_wait_event, cuStreamWaitEvent, (StreamHandle, EventHandle, unsigned))                  \
    required(event_create, cuEventCreate, (EventHandle*, unsigned))                                        \
    required(event_destroy, cuEventDestroy_v2, (EventHandle))                                              \
    required(event_record, cuEventRecord, (EventHandle, StreamHandle))                                     \
    required(event_synchronize, cuEventSynchronize, (EventHandle))                                         \
    required(event_elapsed_time, cuEventElapsedTime, (float*, EventHandle, EventHandle))                   \
    required(module_load_data, cuModuleLoadData, (ModuleHandle*, const void*))                             \
    required(module_load_data_ex, cuModuleLoadDataEx,                                                      \
             (ModuleHandle*, const void*, unsigned, JitOption*, void**))                                   \
    required(module_unload, cuModuleUnload, (ModuleHandle))                                                \
    required(module_get_function, cuModuleGetFunction, (FunctionHandle*, ModuleHandle, const char*))       \
    required(module_get_global, cuModuleGetGlobal_v2,                                                      \
             (DevicePointer*, std::size_t*, ModuleHandle, const char*))                                    \
    required(function_get_attribute, cuFuncGetAttribute, (int*, FunctionAttribute, FunctionHandle))        \
    required(function_set_attribute, cuFuncSetAttribute, (FunctionHandle, FunctionAttribute, int))         \
    optional(function_load, cuFuncLoad, (FunctionHandle))                                                  \
    optional(function_get_param_info, cuFuncGetParamInfo,                                                  \
             (FunctionHandle, std::size_t, std::size_t*, std::size_t*))                                    \
    required(occupancy_blocks, cuOccupancyMaxActiveBlocksPerMultiprocessor,                                \
             (int*, FunctionHandle, int, std::size_t))                                                     \
    required(launch_kernel, cuLaunchKernel,                                                                \
             (FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,        \
              StreamHandle, void**, void**))                                                               \
    optional(launch_kernel_ex, cuLaunchKernelEx, (const LaunchConfig*, FunctionHandle, void**, void**))    \
    required(stream_begin_capture, cuStreamBeginCapture_v2, (StreamHandle, CaptureMode))                   \
    required(stream_is_capturing, cuStreamIsCapturing, (StreamHandle, int*))                               \
    optional(mem_alloc_async, cuMemAllocAsync, (DevicePointer*, std::size_t, StreamHandle))                \
    optional(mem_free_async, cuMemFreeAsync, (DevicePointer, StreamHandle))                                \
    required(stream_end_capture, cuStreamEndCapture, (StreamHandle, GraphHandle*))                         \
    required(graph_get_nodes, cuGraphGetNodes, (GraphHandle, GraphNodeHandle*, std::size_t*))              \
    optional(graph_instantiate, cuGraphInstantiateWithFlags,                                               \
             (GraphExecHandle*, GraphHandle, unsigned long long))                                          \
    required(graph_destroy, cuGraphDestroy, (GraphHandle))                                                 \
    required(graph_launch, cuGraphLaunch, (GraphExecHandle, StreamHandle))                                 \
    required(graph_exec_destroy, cuGraphExecDestroy, (GraphExecHandle))                                    \
    optional(tensor_map_encode, cuTensorMapEncodeTiled,                                                    \
             (void*, TensorMapType, unsigned, void*, const std::uint64_t*, const std::uint64_t*,           \
              const std::uint32_t*, const std::uint32_t*, TensorMapInterleave, TensorMapSwizzle,           \
              TensorMapPromotion, TensorMapFill))
// clang-format on

struct Functions {
    KILN_GPU_TABLE(KILN_CUDA_FUNCTIONS)

    std::string describe(Result result) const;
    /// For memory faults and the like, after which nothing works any more.
    static std::string_view hint(Result result);
};
using Api = gpu::Api<Functions>;

/// The driver, opened and initialised at the first call. nullptr when there is none that works;
/// `reason`, when given, then receives one line on why. A driver without a device counts as none.
const Api* api(std::string* reason = nullptr);

}  // namespace kiln::cuda
