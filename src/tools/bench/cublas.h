// SPDX-License-Identifier: Apache-2.0
//
// Products by cublasLt (the fastest of its heuristics' answers, by measuring) and by cuBLAS without reduced
// precision, on row-major matrices as Kiln's templates have them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/benchmark.h"
#include "bench/cublas_api.h"

namespace kiln::bench {

class VerifiedLaunch;

/// C[m, n] = A[m, k] B[k, n], row-major, or B[n, k] transposed.
struct ProductPlan {
    std::int64_t m = 0, n = 0, k = 0;
    cublas::DataType type = cublas::kFloat32;         ///< of A and B
    cublas::DataType result_type = cublas::kFloat32;  ///< of C
    bool a_is_transposed = false;                     ///< A is stored [k, m]
    bool b_is_transposed = false;                     ///< B is stored [n, k]
};
/// Of a template with sizes m, n, k and tensors a, b, c. Throws UsageError for a type that it has no name for.
ProductPlan product_plan(const VerifiedLaunch& kernel);

/// A product that is ready to be launched, as often as wanted, as long as the Cublas that made it lives.
struct LibraryProduct {
    Launch launch;
    std::string detail;
    /// The same on other matrices of these shapes.
    std::function<Launch(const void* a, const void* b, void* c)> on;
};

class Cublas {
  public:
    /// nullptr, with the reason, where the libraries are not there or don't start. bench must outlive it.
    static std::unique_ptr<Cublas> open(Benchmark& bench, std::string& problem);
    ~Cublas();

    /// cublasLt's best of 8 heuristics, each timed with a cold cache. The matrices must stay. Throws DeviceError.
    LibraryProduct best(const ProductPlan& plan, const void* a, const void* b, void* c);
    /// cublasSgemm in its default mode: FP32 without TF32, which has to be asked for.
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

}  // namespace kiln::bench
