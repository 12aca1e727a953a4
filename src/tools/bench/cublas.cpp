// SPDX-License-Identifier: Apache-2.0
//
// Both libraries are column-major. A row-major C = A B is a column-major C' = B' A' of the same memory, so the
// operands are swapped: the library's first operand is our B, its rows are our columns. So its bias, one for each row, is
// one for each of our columns.
#include "bench/cublas.h"

#include <kiln/error.h>

#include <algorithm>
#include <array>

#include "bench/comparator_run.h"
#include "bench/verified_launch.h"
#include "format/format.h"

namespace kiln::bench {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;
constexpr int kHeuristics = 8;
constexpr int kTrials = 5, kQuickTrials = 3;  // launches of each heuristic before the best is chosen
constexpr float kOne = 1, kZero = 0;
// Of GELU by tanh, which cublasLt computes: of the formula 4.74e-4 at most, at 2.7. If it takes the tanh of the hardware, whose
// relative error is up to 2^-10.987 (PTX ISA, tanh.approx.f32), the sum is 1.15e-3 at most, at 2.9.
constexpr double kTanhGeluError = 1.15e-3;

cublas::DataType data_type(const std::string& name) {
    if (name == "half") return cublas::kFloat16;
    if (name == "bfloat16") return cublas::kBfloat16;
    if (name == "float") return cublas::kFloat32;
    throw UsageError("cuBLAS is not compared with for elements of " + name);
}

/// A parameter of a variant as text; `usual` where its template lacks it.
std::string text_of(const Variant& variant, const std::string& parameter, const std::string& usual) {
    const auto found = variant.values().find(parameter);
    return found == variant.values().end() ? usual : found->second.text();
}

/// Of a template with the parameters of kiln/gemm_epilogue.h, or some of them.
cublas::Epilogue epilogue_of(const Variant& variant) {
    const std::string bias = text_of(variant, "BIAS", "0"), activation = text_of(variant, "ACTIVATION", "0");
    if (text_of(variant, "ALPHA", "1") != "1" || text_of(variant, "RESIDUAL", "false") != "false" ||
        (bias != "0" && bias != "1") || activation == "3")
        throw UsageError("cublasLt is compared with for bias per column, relu and gelu alone, and not for " +
                         variant.text());
    const bool adds = bias == "1";
    if (activation == "1") return adds ? cublas::kEpilogueReluBias : cublas::kEpilogueRelu;
    if (activation == "2") return adds ? cublas::kEpilogueGeluBias : cublas::kEpilogueGelu;
    return adds ? cublas::kEpilogueBias : cublas::kEpilogueDefault;
}

/// The descriptors of a GEMM for cublasLt. The handles live as long as any launch of it.
struct LtProblem {
    const cublas::Api& api;
    cublas::MatmulDesc desc = nullptr;
    cublas::MatrixLayout first = nullptr, second = nullptr, result = nullptr;
    cublas::Preference preference = nullptr;

    explicit LtProblem(const cublas::Api& library) : api(library) {}
    /// Delegates, so that the destructor frees the handles if a later call throws.
    LtProblem(const cublas::Api& library, const ProductPlan& plan) : LtProblem(library) {
        api.check(api.desc_create(&desc, cublas::kCompute32F, cublas::kFloat32), "cublasLtMatmulDescCreate");
        set(cublas::kDescTransposeA, operation(plan.b_is_transposed));
        set(cublas::kDescTransposeB, operation(plan.a_is_transposed));
        if (plan.epilogue != cublas::kEpilogueDefault) set(cublas::kDescEpilogue, plan.epilogue);
        // Its elements are of the type of C, which is the library's default.
        if (plan.bias != nullptr) set(cublas::kDescBiasPointer, plan.bias);
        first =
            layout(plan.type, plan.b_is_transposed ? plan.k : plan.n, plan.b_is_transposed ? plan.n : plan.k);
        second =
            layout(plan.type, plan.a_is_transposed ? plan.m : plan.k, plan.a_is_transposed ? plan.k : plan.m);
        result = layout(plan.result_type, plan.n, plan.m);
        api.check(api.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
        prefer(cublas::kPreferenceMaxWorkspaceBytes, std::uint64_t{kWorkspaceBytes});
        // As Kiln does, split-K adds up in FP32, and rounds once.
        if (plan.result_type != cublas::kFloat32)
            prefer(cublas::kPreferenceReductionSchemes, cublas::kReductionComputeType);
    }
    LtProblem(const LtProblem&) = delete;
    LtProblem& operator=(const LtProblem&) = delete;
    ~LtProblem() {
        if (preference != nullptr) api.preference_destroy(preference);
        for (const cublas::MatrixLayout one : {first, second, result})
            if (one != nullptr) api.layout_destroy(one);
        if (desc != nullptr) api.desc_destroy(desc);
    }

    static cublas::Operation operation(bool transposed) {
        return transposed ? cublas::kTranspose : cublas::kNoTranspose;
    }
    template <class T>
    void set(cublas::DescAttribute attribute, const T& value) {
        api.check(api.desc_set(desc, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
    }
    template <class T>
    void prefer(cublas::PreferenceAttribute attribute, const T& value) {
        api.check(api.preference_set(preference, attribute, &value, sizeof value),
                  "cublasLtMatmulPreferenceSetAttribute");
    }
    /// Column-major, without gaps.
    cublas::MatrixLayout layout(cublas::DataType type, std::int64_t rows, std::int64_t columns) {
        cublas::MatrixLayout made = nullptr;
        api.check(api.layout_create(&made, type, static_cast<std::uint64_t>(rows),
                                    static_cast<std::uint64_t>(columns), rows),
                  "cublasLtMatrixLayoutCreate");
        return made;
    }
};

}  // namespace

ProductPlan product_plan(const VerifiedLaunch& kernel) {
    const Problem& problem = kernel.problem();
    const auto tensor = [&](std::string_view name) -> const Tensor& {
        return *std::ranges::find_if(problem.tensors, [&](const Tensor& one) { return one.name == name; });
    };
    ProductPlan plan;
    plan.m = problem.sizes.at("m");
    plan.n = problem.sizes.at("n");
    plan.k = problem.sizes.at("k");
    plan.type = data_type(tensor("a").type);
    plan.result_type = data_type(tensor("c").type);
    plan.epilogue = epilogue_of(kernel.variant());
    if ((plan.epilogue & cublas::kEpilogueBias) != 0) plan.bias = kernel.tensor("bias").data();
    if ((plan.epilogue & cublas::kEpilogueGelu) != 0) plan.tolerance = kTanhGeluError;
    // Determined from extents for distinct sizes, since those of this problem may be equal.
    const Problem probe = kernel.variant().problem({{"m", 64}, {"n", 128}, {"k", 256}});
    for (const Tensor& one : probe.tensors) {
        if (one.name == "a") plan.a_is_transposed = one.extents.front() == 256;
        if (one.name == "b") plan.b_is_transposed = one.extents.front() == 128;
    }
    return plan;
}

std::unique_ptr<Cublas> Cublas::open(Benchmark& bench, std::string& problem) {
    const cublas::Api* const api = cublas::api(&problem);
    if (api == nullptr) return nullptr;
    std::unique_ptr<Cublas> made(new Cublas(bench, *api));
    try {
        made->start();
    } catch (const DeviceError& error) {
        problem = error.what();
        return nullptr;
    }
    return made;
}

void Cublas::start() {
    // Allocating makes the device's primary context current, which is the one that the libraries use.
    workspace_ = bench_.service().device().allocate(kWorkspaceBytes);
    api_.check(api_.lt_create(&lt_), "cublasLtCreate");
    api_.check(api_.create(&handle_), "cublasCreate");
    const auto stream = static_cast<cublas::StreamPointer>(bench_.stream().handle());
    api_.check(api_.set_stream(handle_, stream), "cublasSetStream");
    api_.check(api_.set_workspace(handle_, workspace_.data(), kWorkspaceBytes), "cublasSetWorkspace");
    api_.check(api_.set_math_mode(handle_, cublas::kDefaultMath), "cublasSetMathMode");
}

Cublas::~Cublas() {
    if (handle_ != nullptr) api_.destroy(handle_);
    if (lt_ != nullptr) api_.lt_destroy(lt_);
}

LibraryChoices Cublas::choices(const ProductPlan& plan, const void* a, const void* b, void* c) {
    const auto problem = std::make_shared<LtProblem>(api_, plan);
    std::array<cublas::HeuristicResult, kHeuristics> found{};
    int count = 0;
    api_.check(api_.heuristics(lt_, problem->desc, problem->first, problem->second, problem->result,
                               problem->result, problem->preference, kHeuristics, found.data(), &count),
               "cublasLtMatmulAlgoGetHeuristic");
    const auto stream = static_cast<cublas::StreamPointer>(bench_.stream().handle());
    std::vector<LibraryProduct> candidates;
    std::vector<Launch> launches;
    for (int i = 0; i < count; ++i) {
        const cublas::HeuristicResult choice = found[static_cast<std::size_t>(i)];
        if (choice.state != cublas::kSuccess) continue;
        LibraryProduct candidate;
        candidate.detail = formatted("heuristic {} of {}", i + 1, count);
        candidate.on = [this, stream, problem, choice](const void* left, const void* right, void* result) {
            return Launch([=, this] {
                api_.check(
                    api_.matmul(lt_, problem->desc, &kOne, right, problem->first, left, problem->second,
                                &kZero, result, problem->result, result, problem->result, &choice.algorithm,
                                workspace_.data(), kWorkspaceBytes, stream),
                    "cublasLtMatmul");
            });
        };
        candidate.launch = candidate.on(a, b, c);
        try {
            candidate.launch();
        } catch (const DeviceError&) {
            continue;  // an algorithm that does not run is skipped
        }
        launches.push_back(candidate.launch);
        candidates.push_back(std::move(candidate));
    }
    bench_.stream().synchronize();
    if (candidates.empty())
        throw DeviceError("cublasLt has no algorithm for " + product_text(plan.m, plan.n, plan.k),
                          "cublasLtMatmulAlgoGetHeuristic");
    const auto times = bench_.interleaved_us(launches, bench_.quick() ? kQuickTrials : kTrials);
    std::size_t fastest = 0;
    for (std::size_t i = 1; i < times.size(); ++i)
        if (spread_of(times[i]).median < spread_of(times[fastest]).median) fastest = i;
    return {candidates.front(), candidates[fastest]};
}

LibraryProduct Cublas::single_precision(const ProductPlan& plan, const float* a, const float* b, float* c) {
    const auto operation = [](bool transposed) {
        return transposed ? cublas::kTranspose : cublas::kNoTranspose;
    };
    const int m = static_cast<int>(plan.m), n = static_cast<int>(plan.n), k = static_cast<int>(plan.k);
    LibraryProduct product;
    product.detail = "";
    product.on = [=, this](const void* left, const void* right, void* result) {
        return Launch([=, this] {
            api_.check(api_.sgemm(handle_, operation(plan.b_is_transposed), operation(plan.a_is_transposed),
                                  n, m, k, &kOne, static_cast<const float*>(right),
                                  plan.b_is_transposed ? k : n, static_cast<const float*>(left),
                                  plan.a_is_transposed ? m : k, &kZero, static_cast<float*>(result), n),
                       "cublasSgemm");
        });
    };
    product.launch = product.on(a, b, c);
    return product;
}

void add_single_precision(Cublas& library, BenchRow& row, ComparatorRun& run, const Aim& aim) {
    attempt(row, "cublasSgemm", [&] {
        VerifiedLaunch& kernel = run.kernel();
        const GuardedTensor& result = run.result_like("c");
        const LibraryProduct product = library.single_precision(
            product_plan(kernel), static_cast<const float*>(kernel.tensor("a").data()),
            static_cast<const float*>(kernel.tensor("b").data()), static_cast<float*>(result.data()));
        run.add("cublasSgemm", product.detail, product.launch, result, {});
    });
    run.join("cuBLAS", {"cublasLt", "cublasSgemm"}, aim);
}

}  // namespace kiln::bench
