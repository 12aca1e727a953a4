// SPDX-License-Identifier: Apache-2.0
//
// The functions of cuBLAS and cublasLt that comparisons use, declared here, so that the build needs neither.
// tests/unit/cublas_api_test.cpp compares the declarations with the real headers if those are installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/dynamic_library.h"

namespace kiln::cublas {

using Status = int;
using Handle = struct HandleOpaque*;
using LtHandle = struct LtHandleOpaque*;
using MatmulDesc = struct MatmulDescOpaque*;
using MatrixLayout = struct MatrixLayoutOpaque*;
using Preference = struct PreferenceOpaque*;
using StreamPointer = struct StreamOpaque*;

enum : Status { kSuccess = 0 };
enum DataType : int { kFloat32 = 0, kFloat16 = 2, kBfloat16 = 14 };
enum ComputeType : int { kCompute32F = 68, kCompute32FPedantic = 69 };
enum Operation : int { kNoTranspose = 0, kTranspose = 1 };
enum MathMode : int { kDefaultMath = 0 };
enum DescAttribute : int {
    kDescTransposeA = 3,
    kDescTransposeB = 4,
    kDescEpilogue = 7,
    kDescBiasPointer = 8
};
enum Epilogue : std::uint32_t {
    kEpilogueDefault = 1,
    kEpilogueRelu = 2,
    kEpilogueBias = 4,
    kEpilogueReluBias = 6,
    kEpilogueGelu = 32,
    kEpilogueGeluBias = 36
};
enum ReductionScheme : std::uint32_t { kReductionComputeType = 2 };
enum PreferenceAttribute : int { kPreferenceMaxWorkspaceBytes = 1, kPreferenceReductionSchemes = 3 };

struct Algorithm {
    std::uint64_t data[8];
};

struct HeuristicResult {
    Algorithm algorithm;
    std::size_t workspace_bytes;
    Status state;
    float waves;
    int reserved[4];
};

// clang-format off
#define KILN_CUBLASLT_FUNCTIONS(function)                                                                   \
    function(lt_create, cublasLtCreate, Status, (LtHandle*))                                                \
    function(lt_destroy, cublasLtDestroy, Status, (LtHandle))                                               \
    function(lt_version, cublasLtGetVersion, std::size_t, ())                                               \
    function(lt_status_name, cublasLtGetStatusName, const char*, (Status))                                  \
    function(desc_create, cublasLtMatmulDescCreate, Status, (MatmulDesc*, ComputeType, DataType))           \
    function(desc_destroy, cublasLtMatmulDescDestroy, Status, (MatmulDesc))                                 \
    function(desc_set, cublasLtMatmulDescSetAttribute, Status,                                              \
             (MatmulDesc, DescAttribute, const void*, std::size_t))                                         \
    function(layout_create, cublasLtMatrixLayoutCreate, Status,                                             \
             (MatrixLayout*, DataType, std::uint64_t, std::uint64_t, std::int64_t))                         \
    function(layout_destroy, cublasLtMatrixLayoutDestroy, Status, (MatrixLayout))                           \
    function(preference_create, cublasLtMatmulPreferenceCreate, Status, (Preference*))                      \
    function(preference_destroy, cublasLtMatmulPreferenceDestroy, Status, (Preference))                     \
    function(preference_set, cublasLtMatmulPreferenceSetAttribute, Status,                                  \
             (Preference, PreferenceAttribute, const void*, std::size_t))                                   \
    function(heuristics, cublasLtMatmulAlgoGetHeuristic, Status,                                            \
             (LtHandle, MatmulDesc, MatrixLayout, MatrixLayout, MatrixLayout, MatrixLayout, Preference,     \
              int, HeuristicResult*, int*))                                                                 \
    function(matmul, cublasLtMatmul, Status,                                                                \
             (LtHandle, MatmulDesc, const void*, const void*, MatrixLayout, const void*, MatrixLayout,      \
              const void*, const void*, MatrixLayout, void*, MatrixLayout, const Algorithm*, void*,         \
              std::size_t, StreamPointer))
#define KILN_CUBLAS_FUNCTIONS(function)                                                                     \
    function(create, cublasCreate_v2, Status, (Handle*))                                                    \
    function(destroy, cublasDestroy_v2, Status, (Handle))                                                   \
    function(set_stream, cublasSetStream_v2, Status, (Handle, StreamPointer))                               \
    function(set_math_mode, cublasSetMathMode, Status, (Handle, MathMode))                                  \
    function(set_workspace, cublasSetWorkspace_v2, Status, (Handle, void*, std::size_t))                    \
    function(sgemm, cublasSgemm_v2, Status,                                                                 \
             (Handle, Operation, Operation, int, int, int, const float*, const float*, int, const float*,   \
              int, const float*, float*, int))
// clang-format on

/// Both libraries. Immutable; stays open for the rest of the process.
struct Api {
#define KILN_DECLARE(member, symbol, result, arguments) result(*member) arguments = nullptr;
    KILN_CUBLASLT_FUNCTIONS(KILN_DECLARE)
    KILN_CUBLAS_FUNCTIONS(KILN_DECLARE)
#undef KILN_DECLARE
    DynamicLibrary lt_library, library;
    std::string version;  ///< for people: "13.1.0"

    /// Throws DeviceError when `status` is an error. call: the library's function.
    void check(Status status, const char* call) const {
        if (status != kSuccess) fail(status, call);
    }
    [[noreturn]] void fail(Status status, const char* call) const;
};

/// Opened at the first call; nullptr when they are missing, with the reason in one line.
const Api* api(std::string* reason);

}  // namespace kiln::cublas
