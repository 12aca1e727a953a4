// SPDX-License-Identifier: Apache-2.0
//
// Our declarations of cuBLAS and cublasLt against their headers: functions, enumerators, layouts; and that a
// machine without the libraries is told so in a line.
#include "bench/cublas_api.h"

#include <gtest/gtest.h>

#include <string>

#if __has_include(<cublasLt.h>) && __has_include(<cublas_v2.h>)
#include <cublasLt.h>
#include <cublas_v2.h>

#include <cstddef>

#include "api_check.h"

namespace kiln::cublas {
namespace {

#define KILN_COMPARE(member, symbol, result, arguments)                              \
    static_assert(test::SameCall<decltype(&::symbol), decltype(Api::member)>::value, \
                  #symbol " is declared differently in NVIDIA's header");
KILN_CUBLASLT_FUNCTIONS(KILN_COMPARE)
KILN_CUBLAS_FUNCTIONS(KILN_COMPARE)

#define KILN_SAME(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))
KILN_SAME(kSuccess, CUBLAS_STATUS_SUCCESS);
KILN_SAME(kFloat32, CUDA_R_32F);
KILN_SAME(kFloat16, CUDA_R_16F);
KILN_SAME(kBfloat16, CUDA_R_16BF);
KILN_SAME(kCompute32F, CUBLAS_COMPUTE_32F);
KILN_SAME(kCompute32FPedantic, CUBLAS_COMPUTE_32F_PEDANTIC);
KILN_SAME(kNoTranspose, CUBLAS_OP_N);
KILN_SAME(kTranspose, CUBLAS_OP_T);
KILN_SAME(kDefaultMath, CUBLAS_DEFAULT_MATH);
KILN_SAME(kDescTransposeA, CUBLASLT_MATMUL_DESC_TRANSA);
KILN_SAME(kDescTransposeB, CUBLASLT_MATMUL_DESC_TRANSB);
KILN_SAME(kDescEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
KILN_SAME(kDescBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
KILN_SAME(kEpilogueDefault, CUBLASLT_EPILOGUE_DEFAULT);
KILN_SAME(kEpilogueRelu, CUBLASLT_EPILOGUE_RELU);
KILN_SAME(kEpilogueBias, CUBLASLT_EPILOGUE_BIAS);
KILN_SAME(kEpilogueReluBias, CUBLASLT_EPILOGUE_RELU_BIAS);
KILN_SAME(kEpilogueGelu, CUBLASLT_EPILOGUE_GELU);
KILN_SAME(kEpilogueGeluBias, CUBLASLT_EPILOGUE_GELU_BIAS);
KILN_SAME(kReductionComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
KILN_SAME(kPreferenceMaxWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
KILN_SAME(kPreferenceReductionSchemes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);

KILN_SAME(sizeof(Algorithm), sizeof(cublasLtMatmulAlgo_t));
KILN_SAME(sizeof(HeuristicResult), sizeof(cublasLtMatmulHeuristicResult_t));
KILN_SAME(offsetof(HeuristicResult, algorithm), offsetof(cublasLtMatmulHeuristicResult_t, algo));
KILN_SAME(offsetof(HeuristicResult, workspace_bytes),
          offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
KILN_SAME(offsetof(HeuristicResult, state), offsetof(cublasLtMatmulHeuristicResult_t, state));
KILN_SAME(offsetof(HeuristicResult, waves), offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));
KILN_SAME(sizeof(DescAttribute), sizeof(cublasLtMatmulDescAttributes_t));

}  // namespace
}  // namespace kiln::cublas
#endif

namespace kiln {
namespace {

TEST(CublasApi, IsThereOrSaysWhyNotInOneLine) {
    std::string reason;
    const cublas::Api* const api = cublas::api(&reason);
    EXPECT_EQ(api == nullptr, !reason.empty());
    EXPECT_EQ(reason.find('\n'), std::string::npos) << reason;
    if (api != nullptr) {
        EXPECT_NE(api->version, "");
    }
}

}  // namespace
}  // namespace kiln
