// SPDX-License-Identifier: Apache-2.0
//
// GEMM by cublasLt (the fastest algorithm of its heuristics, measured) and by cuBLAS without reduced
// precision, for row-major matrices as in Kiln's templates.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/benchmark.h"
#include "bench/cublas_api.h"

namespace kiln::bench {

class ComparatorRun;
class VerifiedLaunch;
struct Aim;

/// C[m, n] = A[m, k] B[k, n], row-major, or B[n, k] transposed; then the epilogue.
struct ProductPlan {
    std::int64_t m = 0, n = 0, k = 0;
    cublas::DataType type = cublas::kFloat32;         ///< of A and B
    cublas::DataType result_type = cublas::kFloat32;  ///< of C
    bool a_is_transposed = false;                     ///< A is stored [k, m]
    bool b_is_transposed = false;                     ///< B is stored [n, k]
    cublas::Epilogue epilogue = cublas::kEpilogueDefault;
    const void* bias = nullptr;  ///< of n elements of C's type, with an epilogue that adds it
    double tolerance = 0;        ///< how far what the library computes is from what Kiln does
};
/// The plan of a template with sizes m, n, k and tensors a, b, c, and bias where it is added. Throws UsageError for a type
/// or an epilogue that the library lacks.
ProductPlan product_plan(const VerifiedLaunch& kernel);

/// A GEMM that is ready to be launched any number of times. The Cublas that made it must outlive it.
struct LibraryProduct {
    Launch launch;
    std::string detail;
    /// The same on other matrices of these shapes.
    std::function<Launch(const void* a, const void* b, void* c)> on;
};

/// Of cublasLt's heuristics: the first that runs, and the fastest.
struct LibraryChoices {
    LibraryProduct first, best;
};

class Cublas {
  public:
    /// nullptr, with the reason, if the libraries are missing or can't be initialised. bench must outlive it.
    static std::unique_ptr<Cublas> open(Benchmark& bench, std::string& problem);
    ~Cublas();

    /// cublasLt's first heuristic and the best of 8, each timed with a cold cache. The matrices must stay valid. Throws
    /// DeviceError.
    LibraryChoices choices(const ProductPlan& plan, const void* a, const void* b, void* c);
    LibraryProduct best(const ProductPlan& plan, const void* a, const void* b, void* c) {
        return choices(plan, a, b, c).best;
    }
    /// cublasSgemm in its default mode: FP32 without TF32.
    LibraryProduct single_precision(const ProductPlan& plan, const float* a, const float* b, float* c);

    const std::string& version() const { return api_.version; }

  private:
    Cublas(Benchmark& bench, const cublas::Api& api) : bench_(bench), api_(api) {}
    void start();

    Benchmark& bench_;
    const cublas::Api& api_;
    cublas::LtHandle lt_ = nullptr;
    cublas::Handle handle_ = nullptr;
    Buffer workspace_;
};

/// Adds cublasSgemm to a row that has "cublasLt", and compares Kiln with the better of both, as "cuBLAS".
void add_single_precision(Cublas& library, BenchRow& row, ComparatorRun& run, const Aim& aim);

}  // namespace kiln::bench
