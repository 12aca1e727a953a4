// SPDX-License-Identifier: Apache-2.0
//
// GEMM: on tensor cores, in FP32, by mma.sync, and with few rows.
#include "bench/comparator_run.h"
#include "bench/cublas.h"
#include "bench/suites.h"

namespace kiln::bench {
namespace {

struct Shape {
    std::int64_t m, n, k;
    const char* part;
    Sizes sizes() const { return {{"m", m}, {"n", n}, {"k", k}}; }
};

/// The suites' shapes; a tiny one on the host, where the suite is only tested.
std::vector<Shape> shapes_of(const Benchmark& bench, std::vector<Shape> full, std::vector<Shape> quick,
                             Shape tiny) {
    return !bench.on_gpu() ? std::vector{tiny} : bench.quick() ? std::move(quick) : std::move(full);
}

/// The shapes of the quick run.
const std::vector<Shape> kQuick = {
    {1024, 1024, 1024, "small"}, {4096, 4096, 4096, "large"}, {2049, 4095, 1023, "odd"}};

struct Products {
    std::vector<std::string> templates;  ///< in order of preference
    std::vector<std::string> types;
    Values values;  ///< in addition to the type
    std::vector<Shape> shapes;
    bool float_only = false;  ///< cublasSgemm and cublasLt, whichever is faster
    bool matrix = true;       ///< the ceiling is that of the matrix cores
    Aim row, mean;
    /// For single rows with weights of more than 100 MB: compared with the library and with a copy.
    Aim large_weights, copy;
    bool in_gbps = false;
};

constexpr std::uint64_t kLargeWeightsBytes = 100'000'000;

/// cublasLt's best; for FP32 the better of cublasLt and cublasSgemm.
void add_library(Benchmark& bench, BenchSuite& suite, BenchRow& row, const Products& products, Aim aim,
                 ComparatorRun& run) {
    Cublas* const library = bench.cublas(suite);
    if (library == nullptr) return;
    VerifiedLaunch& kernel = run.kernel();
    const ProductPlan plan = product_plan(kernel);
    const void* const a = kernel.tensor("a").data();
    const void* const b = kernel.tensor("b").data();
    attempt(row, "cublasLt", [&] {
        const GuardedTensor& result = run.result_like("c");
        const LibraryProduct product = library->best(plan, a, b, result.data());
        run.add("cublasLt", product.detail, product.launch, result, aim);
    });
    if (products.float_only) add_single_precision(*library, row, run, aim);
}

void measure(Benchmark& bench, BenchSuite& suite, const Products& products) {
    struct Asked {
        std::string type;
        Shape shape;
        Values values;
    };
    std::vector<Asked> asked;
    std::vector<Benchmark::Wanted> wanted;
    const auto text_of = [](const std::string& type, const Shape& shape) {
        return type + " " + product_text(shape.m, shape.n, shape.k);
    };
    for (const std::string& type : products.types) {
        for (const Shape& shape : products.shapes) {
            if (!bench.measures(suite, shape.part, text_of(type, shape))) continue;
            Values values = products.values;
            values.emplace("T", type);
            wanted.push_back({products.templates, values, shape.sizes()});
            asked.push_back({type, shape, std::move(values)});
        }
    }
    if (asked.empty()) return;
    bench.prepare(suite, wanted);
    for (const Asked& one : asked) {
        const Shape& shape = one.shape;
        bench.row(suite, text_of(one.type, shape), [&](BenchRow& row) {
            ComparatorRun run(bench, row, bench.choose(products.templates, one.values, shape.sizes()),
                              shape.sizes());
            const bool is_large =
                shape.m == 1 && run.kernel().tensor("b").tensor().size_bytes() > kLargeWeightsBytes;
            const bool has_aim_of_its_own = is_large && products.large_weights.must.has_value();
            add_library(bench, suite, row, products,
                        has_aim_of_its_own ? products.large_weights : products.row, run);
            run.time();
            const Problem& problem = run.kernel().problem();
            if (products.in_gbps)
                set_bytes_rate(row, problem);
            else
                set_flops_rate(row, problem);
            auto share = roof_share(row, bench.ceilings(suite), problem, products.matrix);
            if (share && share->with == "copy" && is_large) {
                share->must = products.copy.must;
                share->aim = products.copy.aim;
            }
            if (share) row.comparisons.push_back(*share);
        });
    }
    add_mean(suite, products.float_only ? "cuBLAS" : "cublasLt", products.mean.must, products.mean.aim);
}

}  // namespace

void run_gemm_half(Benchmark& bench, BenchSuite& suite) {
    Products products;
    products.templates = {"gemm_wgmma", "gemm_wgmma_any", "gemm_mma", "gemm_tiled"};
    products.types = {"half", "bfloat16"};
    products.shapes = shapes_of(bench,
                                {{1024, 1024, 1024, "small"},
                                 {2048, 2048, 2048, "small"},
                                 {4096, 4096, 4096, "large"},
                                 {8192, 8192, 8192, "large"},
                                 {4096, 7168, 2048, "large"},
                                 {4096, 4096, 1024, "small"},
                                 {128, 7168, 2048, "small"},
                                 {1000, 1000, 1000, "odd"},
                                 {3000, 5000, 1736, "odd"},
                                 {2049, 4095, 1023, "odd"}},
                                kQuick, {33, 40, 24, "small"});
    products.row = {0.85, {}};
    products.mean = {1.00, 1.05};
    measure(bench, suite, products);
}

void run_gemm_float(Benchmark& bench, BenchSuite& suite) {
    Products products;
    products.templates = {"gemm_fp32", "gemm_buffered", "gemm_tiled"};
    products.types = {"float"};
    products.shapes = shapes_of(bench,
                                {{1024, 1024, 1024, "small"},
                                 {2048, 2048, 2048, "small"},
                                 {4096, 4096, 4096, "large"},
                                 {8192, 8192, 8192, "large"},
                                 {1000, 1000, 1000, "odd"},
                                 {3000, 5000, 1736, "odd"},
                                 {2049, 4095, 1023, "odd"}},
                                kQuick, {33, 35, 17, "small"});
    products.float_only = true;
    products.matrix = false;
    products.row = {0.85, {}};
    products.mean = {0.95, 1.03};
    measure(bench, suite, products);
}

void run_gemm_mma(Benchmark& bench, BenchSuite& suite) {
    Products products;
    products.templates = {"gemm_mma"};
    products.types = {"half"};
    products.shapes =
        shapes_of(bench,
                  {{1024, 1024, 1024, "small"},
                   {2048, 2048, 2048, "small"},
                   {4096, 4096, 4096, "large"},
                   {8192, 8192, 8192, "large"},
                   {4096, 7168, 2048, "large"},
                   {2049, 4095, 1023, "odd"}},
                  {{1024, 1024, 1024, "small"}, {4096, 4096, 4096, "large"}}, {33, 40, 24, "small"});
    products.mean = {0.55, 0.65};
    measure(bench, suite, products);
}

void run_skinny(Benchmark& bench, BenchSuite& suite) {
    Products products;
    products.templates = {"gemm_skinny", "gemm_mma"};
    products.values = {{"TRANS_B", true}};
    products.types = {"half"};
    std::vector<Shape> full;
    for (const Shape& of : {Shape{0, 4096, 4096, "4096"}, {0, 8192, 8192, "8192"}, {0, 7168, 16384, "16384"}})
        for (const int m : {1, 2, 4, 8, 16}) full.push_back({m, of.n, of.k, of.part});
    full.push_back({1, 16384, 16384, "16384"});
    products.shapes =
        shapes_of(bench, full, {{1, 4096, 4096, "4096"}, {16, 4096, 4096, "4096"}, {1, 7168, 16384, "16384"}},
                  {1, 40, 72, "4096"});
    products.row = {1.2, 1.9};
    products.large_weights = {1.0, 1.07};
    products.copy = {0.90, 0.97};
    products.in_gbps = true;
    measure(bench, suite, products);
}

}  // namespace kiln::bench
