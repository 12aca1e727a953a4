// SPDX-License-Identifier: Apache-2.0
//
// Kiln's own declarations of NVRTC and hipRTC against the vendors' headers, where those are installed.
#include <gtest/gtest.h>

#include <type_traits>

#include "compile/nvrtc_api.h"
#include "compile/worker/hiprtc_api.h"

#if __has_include(<nvrtc.h>)
#include <nvrtc.h>
#define KILN_HAS_NVRTC_HEADER
#elif __has_include("/usr/local/cuda/include/nvrtc.h")
#include "/usr/local/cuda/include/nvrtc.h"
#define KILN_HAS_NVRTC_HEADER
#endif
#if __has_include(<hip/hiprtc.h>)
#define __HIP_PLATFORM_AMD__
#include <hip/hiprtc.h>
#define KILN_HAS_HIPRTC_HEADER
#elif __has_include("/opt/rocm/include/hip/hiprtc.h")
#define __HIP_PLATFORM_AMD__
#include "/opt/rocm/include/hip/hiprtc.h"
#define KILN_HAS_HIPRTC_HEADER
#endif

namespace kiln {
namespace {

// Passed the same way: equal types, pointers both, or an enumeration for an integer of its size.
template <class A, class B>
constexpr bool kSameValue = std::is_same_v<A, B> || (std::is_pointer_v<A> && std::is_pointer_v<B>) ||
                            (sizeof(A) == sizeof(B) &&
                             (std::is_enum_v<A> || std::is_integral_v<A>)&&(std::is_enum_v<B> ||
                                                                            std::is_integral_v<B>));

template <class A, class B>
struct SameAbi : std::false_type {};
template <class A, class B, class... As, class... Bs>
requires(sizeof...(As) == sizeof...(Bs)) struct SameAbi<A (*)(As...), B (*)(Bs...)>
    : std::bool_constant<kSameValue<A, B> && (kSameValue<As, Bs> && ...)> {
};

#define KILN_EXPECT_SAME(member, function) \
    EXPECT_TRUE((SameAbi<std::remove_cvref_t<decltype(member)>, decltype(&function)>::value)) << #function

TEST(CompilerAbi, Nvrtc) {
#ifdef KILN_HAS_NVRTC_HEADER
    const NvrtcApi api;
    KILN_EXPECT_SAME(api.error_string, ::nvrtcGetErrorString);
    KILN_EXPECT_SAME(api.query_version, ::nvrtcVersion);
    KILN_EXPECT_SAME(api.supported_arch_count, ::nvrtcGetNumSupportedArchs);
    KILN_EXPECT_SAME(api.supported_archs, ::nvrtcGetSupportedArchs);
    KILN_EXPECT_SAME(api.create_program, ::nvrtcCreateProgram);
    KILN_EXPECT_SAME(api.destroy_program, ::nvrtcDestroyProgram);
    KILN_EXPECT_SAME(api.compile_program, ::nvrtcCompileProgram);
    KILN_EXPECT_SAME(api.add_name_expression, ::nvrtcAddNameExpression);
    KILN_EXPECT_SAME(api.lowered_name, ::nvrtcGetLoweredName);
    KILN_EXPECT_SAME(api.log_size, ::nvrtcGetProgramLogSize);
    KILN_EXPECT_SAME(api.log, ::nvrtcGetProgramLog);
    KILN_EXPECT_SAME(api.ptx_size, ::nvrtcGetPTXSize);
    KILN_EXPECT_SAME(api.ptx, ::nvrtcGetPTX);
    KILN_EXPECT_SAME(api.cubin_size, ::nvrtcGetCUBINSize);
    KILN_EXPECT_SAME(api.cubin, ::nvrtcGetCUBIN);
    EXPECT_EQ(kNvrtcSuccess, NVRTC_SUCCESS);
    EXPECT_EQ(kNvrtcInvalidOption, NVRTC_ERROR_INVALID_OPTION);
    EXPECT_EQ(kNvrtcBuiltinOperationFailure, NVRTC_ERROR_BUILTIN_OPERATION_FAILURE);
#else
    GTEST_SKIP() << "no nvrtc.h on this machine";
#endif
}

TEST(CompilerAbi, Hiprtc) {
#ifdef KILN_HAS_HIPRTC_HEADER
    const HiprtcApi api;
    KILN_EXPECT_SAME(api.error_string, ::hiprtcGetErrorString);
    KILN_EXPECT_SAME(api.query_version, ::hiprtcVersion);
    KILN_EXPECT_SAME(api.create_program, ::hiprtcCreateProgram);
    KILN_EXPECT_SAME(api.destroy_program, ::hiprtcDestroyProgram);
    KILN_EXPECT_SAME(api.compile_program, ::hiprtcCompileProgram);
    KILN_EXPECT_SAME(api.add_name_expression, ::hiprtcAddNameExpression);
    KILN_EXPECT_SAME(api.lowered_name, ::hiprtcGetLoweredName);
    KILN_EXPECT_SAME(api.log_size, ::hiprtcGetProgramLogSize);
    KILN_EXPECT_SAME(api.log, ::hiprtcGetProgramLog);
    KILN_EXPECT_SAME(api.code_size, ::hiprtcGetCodeSize);
    KILN_EXPECT_SAME(api.code, ::hiprtcGetCode);
    EXPECT_EQ(kHiprtcSuccess, HIPRTC_SUCCESS);
#else
    GTEST_SKIP() << "no hip/hiprtc.h on this machine";
#endif
}

}  // namespace
}  // namespace kiln
