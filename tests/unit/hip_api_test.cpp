// SPDX-License-Identifier: Apache-2.0
//
// Kiln's own declarations of the HIP runtime against <hip/hip_runtime_api.h>, the symbols in an installed
// library, and what listing and opening say on a machine without an AMD device.
#include "device/hip_api.h"

#include <gtest/gtest.h>
#include <kiln/error.h>

#include <cstddef>
#include <string>

#include "device/driver.h"

#if __has_include(<hip/hip_runtime_api.h>)
#define __HIP_PLATFORM_AMD__ 1
#define __HIP_DISABLE_CPP_FUNCTIONS__ 1  // no overloads of the C functions
#include <hip/hip_runtime_api.h>

#include "api_check.h"

namespace kiln::hip {
namespace {

// ROCm 6 and newer rename hipGetDeviceProperties in the header; its offset is checked below.
#define KILN_COMPARE(member, symbol, arguments)                                      \
    static_assert(test::SameCall<decltype(&::symbol), decltype(Api::member)>::value, \
                  #symbol " is declared differently in hip_runtime_api.h");
#define KILN_IGNORE(member, symbol, arguments)
KILN_HIP_FUNCTIONS(KILN_COMPARE, KILN_IGNORE)
static_assert(test::SameCall<decltype(&::hipGetErrorName), decltype(Api::get_error_name)>::value);
static_assert(test::SameCall<decltype(&::hipGetErrorString), decltype(Api::get_error_string)>::value);

#define KILN_SAME(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))
KILN_SAME(kSuccess, hipSuccess);
KILN_SAME(kErrorInvalidValue, hipErrorInvalidValue);
KILN_SAME(kErrorNoDevice, hipErrorNoDevice);
KILN_SAME(kErrorInvalidDevice, hipErrorInvalidDevice);
KILN_SAME(kErrorInvalidImage, hipErrorInvalidImage);
KILN_SAME(kL2CacheSize, hipDeviceAttributeL2CacheSize);
KILN_SAME(kMaxBlocksPerMultiprocessor, hipDeviceAttributeMaxBlocksPerMultiProcessor);
KILN_SAME(kMaxGridX, hipDeviceAttributeMaxGridDimX);
KILN_SAME(kMaxGridY, hipDeviceAttributeMaxGridDimY);
KILN_SAME(kMaxGridZ, hipDeviceAttributeMaxGridDimZ);
KILN_SAME(kMaxThreadsPerBlock, hipDeviceAttributeMaxThreadsPerBlock);
KILN_SAME(kMaxThreadsPerMultiprocessor, hipDeviceAttributeMaxThreadsPerMultiProcessor);
KILN_SAME(kMultiprocessorCount, hipDeviceAttributeMultiprocessorCount);
KILN_SAME(kMaxRegistersPerBlock, hipDeviceAttributeMaxRegistersPerBlock);
KILN_SAME(kMaxSharedPerBlock, hipDeviceAttributeMaxSharedMemoryPerBlock);
KILN_SAME(kWarpSize, hipDeviceAttributeWarpSize);
KILN_SAME(kMaxSharedPerMultiprocessor, hipDeviceAttributeMaxSharedMemoryPerMultiprocessor);
KILN_SAME(kPageableMemoryAccess, hipDeviceAttributePageableMemoryAccess);
KILN_SAME(kPointerMemoryType, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE);
KILN_SAME(kPointerDevicePointer, HIP_POINTER_ATTRIBUTE_DEVICE_POINTER);
KILN_SAME(kPointerDeviceOrdinal, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
KILN_SAME(kFunctionMaxThreadsPerBlock, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
KILN_SAME(kFunctionSharedBytes, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
KILN_SAME(kFunctionLocalBytes, HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
KILN_SAME(kFunctionRegisters, HIP_FUNC_ATTRIBUTE_NUM_REGS);
KILN_SAME(kStreamNonBlocking, hipStreamNonBlocking);
KILN_SAME(kCaptureThreadLocal, hipStreamCaptureModeThreadLocal);
KILN_SAME(kEventDefault, hipEventDefault);

#if HIP_VERSION_MAJOR < 6
KILN_SAME(kArchNameOffset, offsetof(hipDeviceProp_t, gcnArchName));
#else
KILN_SAME(kArchNameOffsetR0600, offsetof(hipDeviceProp_t, gcnArchName));
#endif
KILN_SAME(kArchNameBytes, sizeof(hipDeviceProp_t::gcnArchName));
static_assert(sizeof(hipDeviceProp_t) <= kPropertiesBufferBytes);

}  // namespace
}  // namespace kiln::hip
#endif

namespace kiln {
namespace {

TEST(HipApi, AnInstalledLibraryHasEveryRequiredSymbol) {
    const auto library = DynamicLibrary::open({"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"});
    if (!library) GTEST_SKIP() << "libamdhip64 is not installed";
#define KILN_PRESENT(member, function, arguments) EXPECT_NE(library.symbol(#function), nullptr) << #function;
#define KILN_OPTIONAL(member, symbol, arguments)
    KILN_HIP_FUNCTIONS(KILN_PRESENT, KILN_OPTIONAL)
    EXPECT_NE(library.symbol("hipGetErrorName"), nullptr);
    EXPECT_NE(library.symbol("hipGetErrorString"), nullptr);
}

TEST(HipDevices, ListingWithoutADeviceGivesAReason) {
    std::string reason = "untouched";
    const auto devices = list_hip_devices(&reason);
    if (!devices.empty()) {
        EXPECT_EQ(reason, "");
        for (const DeviceInfo& info : devices) EXPECT_EQ(info.arch.rfind("gfx", 0), 0u);
    } else {
        EXPECT_TRUE(reason.find("libamdhip64.so") != std::string::npos ||
                    reason.find("the runtime answers") != std::string::npos)
            << reason;
        EXPECT_EQ(reason.find('\n'), std::string::npos);
    }
}

TEST(HipDevices, OpeningOneThatIsNotThereNamesIt) {
    const auto devices = list_hip_devices(nullptr);
    try {
        open_hip_device(static_cast<int>(devices.size()));
        FAIL() << "opened a device that is not there";
    } catch (const DeviceError& error) {
        EXPECT_NE(std::string(error.what()).find("there is no HIP device"), std::string::npos)
            << error.what();
    }
}

}  // namespace
}  // namespace kiln
