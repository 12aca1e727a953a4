// SPDX-License-Identifier: Apache-2.0
//
// Matrix products: on tensor cores, in FP32, by the instructions of sm_80, and of few rows.
#include "bench/contest.h"
#include "bench/cublas.h"
#include "bench/suites.h"

namespace kiln::bench {
namespace {

struct Shape {
    std::int64_t m, n, k;
    Sizes sizes() const { return {{"m", m}, {"n", n}, {"k", k}}; }
};

/// The suites' shapes; on the host, where they are only tried, a tiny one.
std::vector<Shape> shapes_of(const Workbench& bench, std::vector<Shape> full, std::vector<Shape> quick,
                             Shape tiny) {
    return !bench.on_gpu() ? std::vector{tiny} : bench.quick() ? std::move(quick) : std::move(full);
}

struct Products {
    std::vector<std::string> templates;  ///< in order of preference
    std::vector<std::string> types;
    Values values;  ///< besides the type
    std::vector<Shape> shapes;
    bool pedantic = false;  ///< cublasSgemm instead of cublasLt
    bool matrix = true;     ///< the ceiling is that of the matrix cores
    Aim row, mean;
    Aim copy;  ///< of single rows with weights of more than 100 MB: the share of a copy
    bool in_gbps = false;
};

constexpr std::uint64_t kLargeWeightsBytes = 100'000'000;

void add_library(Workbench& bench, BenchSuite& suite, BenchRow& row, const Products& products,
                 Contest& contest) {
    Cublas* const library = bench.cublas(suite);
    if (library == nullptr) return;
    const char* const name = products.pedantic ? "cublasSgemm" : "cublasLt";
    attempt(row, name, [&] {
        Stage& stage = contest.stage();
        const ProductPlan plan = product_plan(stage);
        const void* const a = stage.tensor("a").data();
        const void* const b = stage.tensor("b").data();
        const GuardedTensor& result = contest.result_like("c");
        const LibraryProduct product =
            products.pedantic
                ? library->pedantic(plan, static_cast<const float*>(a), static_cast<const float*>(b),
                                    static_cast<float*>(result.data()))
                : library->best(plan, a, b, result.data());
        contest.add(name, product.detail, product.launch, result, products.row);
    });
}

void measure(Workbench& bench, BenchSuite& suite, const Products& products) {
    struct Asked {
        std::string type;
        Shape shape;
        Values values;
    };
    std::vector<Asked> asked;
    std::vector<Workbench::Wanted> wanted;
    for (const std::string& type : products.types) {
        for (const Shape& shape : products.shapes) {
            Values values = products.values;
            values.emplace("T", type);
            wanted.push_back({products.templates, values, shape.sizes()});
            asked.push_back({type, shape, std::move(values)});
        }
    }
    bench.prepare(suite, wanted);
    for (const Asked& one : asked) {
        const Shape& shape = one.shape;
        bench.row(suite, one.type + " " + product_text(shape.m, shape.n, shape.k), [&](BenchRow& row) {
            Contest contest(bench, row, bench.choose(products.templates, one.values, shape.sizes()),
                            shape.sizes());
            add_library(bench, suite, row, products, contest);
            contest.time();
            const Problem& problem = contest.stage().problem();
            if (products.in_gbps)
                set_bytes_rate(row, problem);
            else
                set_flops_rate(row, problem);
            auto share = roof_share(row, bench.ceilings(suite), problem, products.matrix);
            if (share && share->with == "copy" && shape.m == 1 &&
                contest.stage().tensor("b").tensor().size_bytes() > kLargeWeightsBytes) {
                share->must = products.copy.must;
                share->aim = products.copy.aim;
            }
            if (share) row.comparisons.push_back(*share);
        });
    }
    add_mean(suite, products.pedantic ? "cublasSgemm" : "cublasLt", products.mean.must, products.mean.aim);
}

}  // namespace

void run_gemm_half(Workbench& bench, BenchSuite& suite) {
    Products products;
    products.templates = {"gemm_wgmma", "gemm_wgmma_any", "gemm_mma", "gemm_tiled"};
    products.types = {"half", "bfloat16"};
    products.shapes = shapes_of(bench,
                                {{1024, 1024, 1024},
                                 {2048, 2048, 2048},
                                 {4096, 4096, 4096},
                                 {8192, 8192, 8192},
                                 {4096, 7168, 2048},
                                 {4096, 4096, 1024},
                                 {128, 7168, 2048},
                                 {1000, 1000, 1000},
                                 {3000, 5000, 1736},
                                 {2049, 4095, 1023}},
                                {{1024, 1024, 1024}, {4096, 4096, 4096}, {2049, 4095, 1023}}, {33, 40, 24});
    products.row = {0.85, {}};
    products.mean = {0.95, 1.05};
    measure(bench, suite, products);
}

void run_gemm_float(Workbench& bench, BenchSuite& suite) {
    Products products;
    products.templates = {"gemm_fp32", "gemm_buffered", "gemm_tiled"};
    products.types = {"float"};
    products.shapes = shapes_of(bench,
                                {{1024, 1024, 1024},
                                 {2048, 2048, 2048},
                                 {4096, 4096, 4096},
                                 {8192, 8192, 8192},
                                 {1000, 1000, 1000},
                                 {3000, 5000, 1736},
                                 {2049, 4095, 1023}},
                                {{1024, 1024, 1024}, {4096, 4096, 4096}, {2049, 4095, 1023}}, {33, 35, 17});
    products.pedantic = true;
    products.matrix = false;
    products.row = {0.85, {}};
    products.mean = {0.95, 1.03};
    measure(bench, suite, products);
}

void run_gemm_mma(Workbench& bench, BenchSuite& suite) {
    Products products;
    products.templates = {"gemm_mma"};
    products.types = {"half"};
    products.shapes = shapes_of(bench,
                                {{1024, 1024, 1024},
                                 {2048, 2048, 2048},
                                 {4096, 4096, 4096},
                                 {8192, 8192, 8192},
                                 {4096, 7168, 2048},
                                 {2049, 4095, 1023}},
                                {{1024, 1024, 1024}, {4096, 4096, 4096}}, {33, 40, 24});
    products.mean = {0.50, 0.62};
    measure(bench, suite, products);
}

void run_skinny(Workbench& bench, BenchSuite& suite) {
    Products products;
    products.templates = {"gemm_skinny", "gemm_mma"};
    products.values = {{"TRANS_B", true}};
    products.types = {"half"};
    std::vector<Shape> full;
    for (const auto& [n, k] : {std::pair{4096, 4096}, {8192, 8192}, {7168, 16384}})
        for (const int m : {1, 2, 4, 8, 16}) full.push_back({m, n, k});
    full.push_back({1, 16384, 16384});
    products.shapes =
        shapes_of(bench, full, {{1, 4096, 4096}, {16, 4096, 4096}, {1, 7168, 16384}}, {1, 40, 72});
    products.row = {1.2, 1.9};
    products.copy = {0.85, 0.95};
    products.in_gbps = true;
    measure(bench, suite, products);
}

}  // namespace kiln::bench
