// SPDX-License-Identifier: Apache-2.0
//
// Kiln's own declarations of the CUDA driver against <cuda.h>: functions, symbol names, enumerators and
// structure layouts; and what listing and opening say on a machine without a driver.
#include "device/cuda_api.h"

#include <gtest/gtest.h>
#include <kiln/error.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "device/driver.h"

#if __has_include(<cuda.h>)
#include <cuda.h>

#include "api_check.h"

namespace kiln::cuda {
namespace {

// A function that this version of the header lacks can't be compared: all optional ones came with 12.4 or
// earlier.
#define KILN_COMPARE(member, symbol, arguments)                                      \
    static_assert(test::SameCall<decltype(&::symbol), decltype(Api::member)>::value, \
                  #symbol " is declared differently in cuda.h");
#define KILN_IGNORE(member, symbol, arguments)
#if CUDA_VERSION >= 12040
KILN_CUDA_FUNCTIONS(KILN_COMPARE, KILN_COMPARE)
#else
KILN_CUDA_FUNCTIONS(KILN_COMPARE, KILN_IGNORE)
#endif

#define KILN_SAME(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))
KILN_SAME(kSuccess, CUDA_SUCCESS);
KILN_SAME(kErrorInvalidValue, CUDA_ERROR_INVALID_VALUE);
KILN_SAME(kErrorDeinitialized, CUDA_ERROR_DEINITIALIZED);
KILN_SAME(kErrorNoDevice, CUDA_ERROR_NO_DEVICE);
KILN_SAME(kErrorInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
KILN_SAME(kErrorInvalidImage, CUDA_ERROR_INVALID_IMAGE);
KILN_SAME(kErrorInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
KILN_SAME(kErrorInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
KILN_SAME(kErrorNotFound, CUDA_ERROR_NOT_FOUND);
KILN_SAME(kErrorIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
KILN_SAME(kErrorLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
KILN_SAME(kErrorContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
KILN_SAME(kErrorAssert, CUDA_ERROR_ASSERT);
KILN_SAME(kErrorHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
KILN_SAME(kErrorIllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
KILN_SAME(kErrorMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
KILN_SAME(kErrorInvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE);
KILN_SAME(kErrorInvalidPc, CUDA_ERROR_INVALID_PC);
KILN_SAME(kErrorLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);

KILN_SAME(kMaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
KILN_SAME(kMaxGridX, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
KILN_SAME(kMaxGridY, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
KILN_SAME(kMaxGridZ, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
KILN_SAME(kMaxSharedPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
KILN_SAME(kWarpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
KILN_SAME(kMaxRegistersPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
KILN_SAME(kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
KILN_SAME(kL2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
KILN_SAME(kMaxThreadsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
KILN_SAME(kComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
KILN_SAME(kComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
KILN_SAME(kMaxSharedPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
KILN_SAME(kMaxRegistersPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
KILN_SAME(kMaxSharedPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
KILN_SAME(kMaxBlocksPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
KILN_SAME(kPageableMemoryAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
KILN_SAME(kPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
KILN_SAME(kPointerDevicePointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
KILN_SAME(kPointerDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
KILN_SAME(kFunctionMaxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
KILN_SAME(kFunctionSharedBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
KILN_SAME(kFunctionLocalBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
KILN_SAME(kFunctionRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS);
KILN_SAME(kFunctionMaxDynamicSharedBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
KILN_SAME(kJitInfoLogBuffer, CU_JIT_INFO_LOG_BUFFER);
KILN_SAME(kJitInfoLogBufferBytes, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
KILN_SAME(kJitErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER);
KILN_SAME(kJitErrorLogBufferBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
KILN_SAME(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
KILN_SAME(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
KILN_SAME(kEventDefault, CU_EVENT_DEFAULT);

#if CUDA_VERSION >= 12000
KILN_SAME(kTensorMapUint8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
KILN_SAME(kTensorMapUint16, CU_TENSOR_MAP_DATA_TYPE_UINT16);
KILN_SAME(kTensorMapUint32, CU_TENSOR_MAP_DATA_TYPE_UINT32);
KILN_SAME(kTensorMapInt32, CU_TENSOR_MAP_DATA_TYPE_INT32);
KILN_SAME(kTensorMapUint64, CU_TENSOR_MAP_DATA_TYPE_UINT64);
KILN_SAME(kTensorMapInt64, CU_TENSOR_MAP_DATA_TYPE_INT64);
KILN_SAME(kTensorMapFloat16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
KILN_SAME(kTensorMapFloat32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
KILN_SAME(kTensorMapFloat64, CU_TENSOR_MAP_DATA_TYPE_FLOAT64);
KILN_SAME(kTensorMapBfloat16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
KILN_SAME(kTensorMapInterleaveNone, CU_TENSOR_MAP_INTERLEAVE_NONE);
KILN_SAME(kTensorMapSwizzleNone, CU_TENSOR_MAP_SWIZZLE_NONE);
KILN_SAME(kTensorMapSwizzle32, CU_TENSOR_MAP_SWIZZLE_32B);
KILN_SAME(kTensorMapSwizzle64, CU_TENSOR_MAP_SWIZZLE_64B);
KILN_SAME(kTensorMapSwizzle128, CU_TENSOR_MAP_SWIZZLE_128B);
KILN_SAME(kTensorMapL2Bytes128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
KILN_SAME(kTensorMapL2Bytes256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
KILN_SAME(kTensorMapFillZero, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
KILN_SAME(kTensorMapBytes, sizeof(CUtensorMap));
static_assert(kTensorMapAlignment >= alignof(CUtensorMap));
#endif

#if CUDA_VERSION >= 11080
KILN_SAME(kClusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
KILN_SAME(kFunctionNonPortableClusterAllowed, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
KILN_SAME(kLaunchClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
#define KILN_SAME_FIELD(ours, our_field, theirs, their_field)                  \
    static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field)); \
    static_assert(sizeof(ours::our_field) == sizeof(theirs::their_field))
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(alignof(LaunchAttribute) <= alignof(CUlaunchAttribute));
KILN_SAME_FIELD(LaunchAttribute, id, CUlaunchAttribute, id);
KILN_SAME_FIELD(LaunchAttribute, value, CUlaunchAttribute, value);
KILN_SAME(kLaunchProgrammaticSerialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
KILN_SAME_FIELD(LaunchAttribute, value.programmatic_serialization, CUlaunchAttribute,
                value.programmaticStreamSerializationAllowed);
KILN_SAME(kLaunchPriority, CU_LAUNCH_ATTRIBUTE_PRIORITY);
KILN_SAME_FIELD(LaunchAttribute, value.priority, CUlaunchAttribute, value.priority);
KILN_SAME(kLaunchAccessPolicyWindow, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW);
KILN_SAME_FIELD(LaunchAttribute, value.access_policy, CUlaunchAttribute, value.accessPolicyWindow);
KILN_SAME_FIELD(AccessPolicyWindow, base, CUaccessPolicyWindow, base_ptr);
KILN_SAME_FIELD(AccessPolicyWindow, bytes, CUaccessPolicyWindow, num_bytes);
KILN_SAME_FIELD(AccessPolicyWindow, hit_ratio, CUaccessPolicyWindow, hitRatio);
KILN_SAME_FIELD(AccessPolicyWindow, hit, CUaccessPolicyWindow, hitProp);
KILN_SAME_FIELD(AccessPolicyWindow, miss, CUaccessPolicyWindow, missProp);
KILN_SAME(kAccessNormal, CU_ACCESS_PROPERTY_NORMAL);
KILN_SAME(kAccessStreaming, CU_ACCESS_PROPERTY_STREAMING);
KILN_SAME(kAccessPersisting, CU_ACCESS_PROPERTY_PERSISTING);
// Public ones are cast to these.
KILN_SAME(kiln::AccessPolicyWindow::Property::normal, kAccessNormal);
KILN_SAME(kiln::AccessPolicyWindow::Property::streaming, kAccessStreaming);
KILN_SAME(kiln::AccessPolicyWindow::Property::persisting, kAccessPersisting);
KILN_SAME_FIELD(LaunchAttribute, value.cluster.x, CUlaunchAttribute, value.clusterDim.x);
KILN_SAME_FIELD(LaunchAttribute, value.cluster.y, CUlaunchAttribute, value.clusterDim.y);
KILN_SAME_FIELD(LaunchAttribute, value.cluster.z, CUlaunchAttribute, value.clusterDim.z);
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig) &&
              alignof(LaunchConfig) == alignof(CUlaunchConfig));
KILN_SAME_FIELD(LaunchConfig, grid_x, CUlaunchConfig, gridDimX);
KILN_SAME_FIELD(LaunchConfig, grid_y, CUlaunchConfig, gridDimY);
KILN_SAME_FIELD(LaunchConfig, grid_z, CUlaunchConfig, gridDimZ);
KILN_SAME_FIELD(LaunchConfig, block_x, CUlaunchConfig, blockDimX);
KILN_SAME_FIELD(LaunchConfig, block_y, CUlaunchConfig, blockDimY);
KILN_SAME_FIELD(LaunchConfig, block_z, CUlaunchConfig, blockDimZ);
KILN_SAME_FIELD(LaunchConfig, shared_bytes, CUlaunchConfig, sharedMemBytes);
KILN_SAME_FIELD(LaunchConfig, stream, CUlaunchConfig, hStream);
KILN_SAME_FIELD(LaunchConfig, attributes, CUlaunchConfig, attrs);
KILN_SAME_FIELD(LaunchConfig, attribute_count, CUlaunchConfig, numAttrs);
#endif

// cuda.h maps each name to the version that its declarations describe. A name in the table that it maps to
// another would find an older function of another layout in the library.
TEST(CudaApi, SymbolsAreTheVersionsThatTheHeaderDescribes) {
#define KILN_TEXT_OF(token) #token
#define KILN_EXPANDED(token) KILN_TEXT_OF(token)
#define KILN_VERSION(member, symbol, arguments)                                              \
    if (std::string_view(#symbol) != "cuEventElapsedTime") { /* v2 has the same signature */ \
        EXPECT_STREQ(#symbol, KILN_EXPANDED(symbol));                                        \
    }
    KILN_CUDA_FUNCTIONS(KILN_VERSION, KILN_VERSION)
    EXPECT_STREQ("cuMemAlloc_v2", KILN_EXPANDED(cuMemAlloc));  // the test sees the header's names
}

}  // namespace
}  // namespace kiln::cuda
#else
TEST(CudaApi, SymbolsAreTheVersionsThatTheHeaderDescribes) { GTEST_SKIP() << "no cuda.h on this machine"; }
#endif

namespace kiln {
namespace {

TEST(CudaDevices, ListingWithoutADeviceGivesAReason) {
    std::string reason = "untouched";
    const auto devices = list_cuda_devices(&reason);
    if (!devices.empty()) {
        EXPECT_EQ(reason, "");
        for (std::size_t i = 0; i < devices.size(); ++i) {
            EXPECT_EQ(devices[i].ordinal, static_cast<int>(i));
            EXPECT_EQ(devices[i].arch.rfind("sm_", 0), 0u);
        }
    } else {
        EXPECT_TRUE(reason.find("libcuda.so.1") != std::string::npos ||
                    reason.find("the driver answers") != std::string::npos)
            << reason;
        EXPECT_EQ(reason.find('\n'), std::string::npos);
    }
}

TEST(CudaDevices, OpeningOneThatIsNotThereNamesIt) {
    const auto devices = list_cuda_devices(nullptr);
    try {
        open_cuda_device(static_cast<int>(devices.size()));
        FAIL() << "opened a device that is not there";
    } catch (const DeviceError& error) {
        const std::string message = error.what();
        EXPECT_NE(message.find("there is no CUDA device"), std::string::npos) << message;
        if (!devices.empty()) {
            EXPECT_NE(message.find(devices[0].name), std::string::npos) << message;
            EXPECT_EQ(error.code(), cuda::kErrorInvalidDevice);
        } else {
            EXPECT_EQ(error.code(), cuda::kErrorNoDevice);
        }
    }
    EXPECT_THROW(open_cuda_device(-1), DeviceError);
}

}  // namespace
}  // namespace kiln
