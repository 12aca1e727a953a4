// SPDX-License-Identifier: Apache-2.0
//
// Chains of small kernels as one graph, compared with the same launches one by one and with cublasLt's GEMMs in
// a graph. Measures the time until all work has ended, on the host.
#include <list>

#include "base/stopwatch.h"
#include "bench/comparator_run.h"
#include "bench/cublas.h"
#include "bench/suites.h"
#include "format/format.h"

namespace kiln::bench {
namespace {

constexpr int kGraphRounds = 40, kQuickGraphRounds = 15, kRoundsOnHost = 2, kWarmUp = 5;
constexpr Aim kOneByOne = {1.5, 3.0}, kLibrary = {1.0, 1.3};

struct ImplementationTimes {
    std::vector<double> calls_us;  ///< until the last call returned
    std::vector<double> whole_us;  ///< until the work has ended
};

/// Runs each way `repeats` times in a row, interleaved with the other ways; times are those of one repeat.
std::vector<ImplementationTimes> wall_times(Benchmark& bench, const std::vector<Launch>& ways, int repeats) {
    const int rounds = !bench.on_gpu() ? kRoundsOnHost : bench.quick() ? kQuickGraphRounds : kGraphRounds;
    std::vector<ImplementationTimes> times(ways.size());
    for (int round = bench.on_gpu() ? -kWarmUp : 0; round < rounds; ++round) {
        for (std::size_t turn = 0; turn < ways.size(); ++turn) {
            const std::size_t which = (turn + static_cast<std::size_t>(round & 3)) % ways.size();
            bench.stream().synchronize();
            const Stopwatch watch;
            for (int i = 0; i < repeats; ++i) ways[which]();
            const double calls_us = watch.elapsed_us() / repeats;
            bench.stream().synchronize();
            if (round < 0) continue;
            times[which].calls_us.push_back(calls_us);
            times[which].whole_us.push_back(watch.elapsed_us() / repeats);
        }
    }
    return times;
}

/// The library's result of a GEMM kernel.
struct Product {
    VerifiedLaunch* kernel;
    GuardedTensor result;
};

/// A chain of Kiln's kernels, none of which works in place, and the same with the library's GEMMs.
struct Chain {
    std::list<VerifiedLaunch> kernels;
    std::list<Product> products;
    Launch one_by_one;
    Launch library;  ///< empty: it is not there
};

/// The same variant with programmatic dependent launch, if its template supports it.
Chosen overlapping(Benchmark& bench, Chosen chosen) {
    if (bench.on_cuda()) chosen.variant = with_overlap(chosen.variant, true);
    return chosen;
}

/// Adds a kernel, verified. Wrong results go into the row.
VerifiedLaunch& add_kernel(Benchmark& bench, BenchRow& row, Chain& chain, const Chosen& chosen,
                           const Sizes& sizes) {
    VerifiedLaunch& kernel = chain.kernels.emplace_back(bench, chosen.variant, sizes);
    const std::vector<std::string> wrong = kernel.verify();
    row.failures.insert(row.failures.end(), wrong.begin(), wrong.end());
    row.verified = row.verified.value_or(true) && wrong.empty();
    return kernel;
}

/// The library's launch of a GEMM kernel. best: the choice for this shape; empty: not chosen yet.
Launch library_launch(Chain& chain, VerifiedLaunch& kernel, Cublas& library,
                      std::optional<LibraryProduct>& best) {
    const void* const a = kernel.tensor("a").data();
    const void* const b = kernel.tensor("b").data();
    chain.products.push_back({&kernel, kernel.like("c")});
    void* const c = chain.products.back().result.data();
    if (!best) best = library.best(product_plan(kernel), a, b, c);
    return best->on(a, b, c);
}

/// Runs a way as often in a row as it is timed, and verifies all results: launches that overlap, are captured or are
/// repeated can be wrong even if a single launch is right. Returns whether they are right.
bool verify_as_timed(Benchmark& bench, BenchRow& row, Chain& chain, const std::string& how, const Launch& way,
                     int repeats, bool is_library) {
    for (VerifiedLaunch& kernel : chain.kernels) kernel.poison();
    for (Product& product : chain.products) product.result.refill();
    for (int i = 0; i < repeats; ++i) way();
    bench.stream().synchronize();
    std::vector<std::string> wrong;
    const auto add = [&](const std::vector<std::string>& sentences) {
        for (const std::string& sentence : sentences) wrong.push_back(how + ": " + sentence);
    };
    if (is_library)
        for (const Product& product : chain.products) add(product.kernel->verify(product.result, "cublasLt"));
    else
        for (VerifiedLaunch& kernel : chain.kernels) add(kernel.check());
    row.failures.insert(row.failures.end(), wrong.begin(), wrong.end());
    return wrong.empty();
}

/// Times the chain as a graph, one by one, and the library's way as a graph.
void time_chain(Benchmark& bench, BenchRow& row, Chain& chain, int repeats, Aim one_by_one) {
    // One by one comes first, since kernels are loaded at their first launch, which must not happen in a
    // capture.
    bool right = verify_as_timed(bench, row, chain, "one by one", chain.one_by_one, repeats, false);
    const Graph graph = Graph::capture(bench.stream(), chain.one_by_one);
    std::vector<Launch> ways = {[&] { graph.launch(bench.stream()); }, chain.one_by_one};
    right = verify_as_timed(bench, row, chain, "as a graph", ways.front(), repeats, false) && right;
    row.verified = row.verified.value_or(true) && right;
    Graph library;
    bool has_library = false, library_is_right = true;
    if (chain.library) {
        has_library = attempt(row, "cublasLt", [&] {
            library_is_right = verify_as_timed(bench, row, chain, "one by one", chain.library, repeats, true);
            library = Graph::capture(bench.stream(), chain.library);
            const Launch launch = [&] { library.launch(bench.stream()); };
            library_is_right =
                verify_as_timed(bench, row, chain, "as a graph", launch, repeats, true) && library_is_right;
        });
    }
    if (has_library) {
        ways.emplace_back([&] { library.launch(bench.stream()); });
        ways.push_back(chain.library);
    }
    for (VerifiedLaunch& kernel : chain.kernels) kernel.done_verifying();
    const std::vector<ImplementationTimes> times = wall_times(bench, ways, repeats);
    row.kiln = spread_of(times[0].whole_us);
    const auto add = [&](const char* with, const char* detail, std::size_t which, Aim aim) {
        if (!bench.on_gpu()) aim = {};
        row.comparisons.push_back(compared(row, with, detail, times[which].whole_us, aim.must, aim.aim));
    };
    add("one by one", "the same kernels launched one by one", 1, one_by_one);
    if (has_library) {
        add("cublasLt graph", "its products in a graph", 2, kLibrary);
        row.comparisons.back().verified = library_is_right;
        add("cublasLt one by one", "its products launched one by one", 3, {});
    }
    row.comparisons.front().detail +=
        formatted("; {} launches; the calls take {:.3g} us, one by one {:.3g} us", chain.kernels.size(),
                  spread_of(times[0].calls_us).median, spread_of(times[1].calls_us).median);
}

Launch all_of(std::vector<Launch> launches) {
    return [launches = std::move(launches)] {
        for (const Launch& launch : launches) launch();
    };
}

const std::vector<std::string> kProducts = {"gemm_wgmma", "gemm_wgmma_any", "gemm_mma", "gemm_tiled"};
const std::vector<std::string> kSkinny = {"gemm_skinny", "gemm_mma"};

void measure_products(Benchmark& bench, BenchSuite& suite, int count, std::int64_t size) {
    const std::string text = formatted("{} GEMMs half {}", count, product_text(size, size, size));
    if (!bench.measures(suite, "products", text)) return;
    bench.row(suite, text, [&](BenchRow& row) {
        const Sizes sizes = {{"m", size}, {"n", size}, {"k", size}};
        row.sizes = sizes;
        const Chosen chosen = overlapping(bench, bench.choose(kProducts, {{"T", "half"}}, sizes));
        row.variant = chosen.variant.text();
        row.origin = chosen.origin;
        Cublas* library = bench.cublas(suite);
        Chain chain;
        std::vector<Launch> ours, theirs;
        std::optional<LibraryProduct> best;
        for (int i = 0; i < count; ++i) {
            VerifiedLaunch& kernel = add_kernel(bench, row, chain, chosen, sizes);
            ours.emplace_back([&kernel] { kernel.launch(); });
            if (library == nullptr) continue;
            const auto add = [&] { theirs.push_back(library_launch(chain, kernel, *library, best)); };
            if (!attempt(row, "cublasLt", add)) library = nullptr;
        }
        chain.one_by_one = all_of(std::move(ours));
        if (library != nullptr) chain.library = all_of(std::move(theirs));
        time_chain(bench, row, chain, 1, kOneByOne);
    });
}

/// The sizes of a transformer's layer.
struct Layer {
    std::string text;
    std::int64_t batch, hidden, kv_heads, wide, length;  ///< wide: both halves of the gated GEMM
    bool is_small = false;                               ///< so small that launches dominate the time
};
constexpr std::int64_t kGroup = 4, kHead = 128;

void measure_layer(Benchmark& bench, BenchSuite& suite, const Layer& layer) {
    if (!bench.measures(suite, "layers", layer.text)) return;
    bench.row(suite, layer.text, [&](BenchRow& row) {
        row.sizes = {{"batch", layer.batch},
                     {"hidden", layer.hidden},
                     {"kv_heads", layer.kv_heads},
                     {"wide", layer.wide},
                     {"max_length", layer.length}};
        Cublas* library = bench.cublas(suite);
        Chain chain;
        std::vector<Launch> ours, theirs;
        const auto add = [&](const std::vector<std::string>& templates, const Values& values,
                             const Sizes& sizes) {
            const Chosen chosen = overlapping(bench, bench.choose(templates, values, sizes));
            VerifiedLaunch& kernel = add_kernel(bench, row, chain, chosen, sizes);
            row.variant += (row.variant.empty() ? "" : "; ") + chosen.variant.template_name();
            ours.emplace_back([&kernel] { kernel.launch(); });
            if (library == nullptr) return;
            const bool is_product = sizes.contains("k");
            const auto add_theirs = [&] {
                std::optional<LibraryProduct> best;
                theirs.push_back(is_product ? library_launch(chain, kernel, *library, best) : ours.back());
            };
            if (!attempt(row, "cublasLt", add_theirs)) library = nullptr;
        };
        const std::int64_t queries = kGroup * layer.kv_heads * kHead;
        const auto product = [&](std::int64_t n, std::int64_t k) {
            add(kSkinny, {{"T", "half"}, {"TRANS_B", true}}, {{"m", layer.batch}, {"n", n}, {"k", k}});
        };
        const auto norm = [&] {
            add({"layer_norm"}, {{"T", "half"}}, {{"rows", layer.batch}, {"cols", layer.hidden}});
        };
        norm();
        product(queries + 2 * layer.kv_heads * kHead, layer.hidden);
        add({"decode_mma", "decode_persistent", "decode_paged"}, {},
            {{"batch", layer.batch}, {"kv_heads", layer.kv_heads}, {"max_length", layer.length}});
        product(layer.hidden, queries);
        norm();
        product(layer.wide, layer.hidden);
        product(layer.hidden, layer.wide / 2);
        chain.one_by_one = all_of(std::move(ours));
        if (library != nullptr) chain.library = all_of(std::move(theirs));
        time_chain(bench, row, chain, bench.on_gpu() ? 8 : 1, layer.is_small ? kOneByOne : Aim{});
    });
}

/// Decode attention of `count` tokens, one after the other.
void measure_steps(Benchmark& bench, BenchSuite& suite, const std::string& kernel, int count,
                   std::int64_t batch, std::int64_t length) {
    const std::string text =
        formatted("{} launches of {}, batch {}, up to {} tokens", count, kernel, batch, length);
    if (!bench.measures(suite, "steps", text)) return;
    bench.row(suite, text, [&](BenchRow& row) {
        const Sizes sizes = {{"batch", batch}, {"max_length", length}};
        row.sizes = sizes;
        const Chosen chosen = bench.choose({kernel}, {}, sizes);
        row.variant = chosen.variant.text();
        row.origin = chosen.origin;
        Chain chain;
        VerifiedLaunch& step = add_kernel(bench, row, chain, chosen, sizes);
        chain.one_by_one =
            all_of(std::vector<Launch>(static_cast<std::size_t>(count), [&step] { step.launch(); }));
        time_chain(bench, row, chain, 1, {});
    });
}

}  // namespace

void run_graphs(Benchmark& bench, BenchSuite& suite) {
    if (!bench.on_gpu()) {
        measure_products(bench, suite, 3, 40);
        measure_layer(bench, suite, {"a tiny decode layer, batch 1", 1, 512, 1, 64, 70, true});
        measure_steps(bench, suite, "decode_paged", 2, 1, 65);
    } else {
        measure_products(bench, suite, bench.quick() ? 16 : 64, 256);
        if (!bench.quick()) measure_products(bench, suite, 64, 512);
        measure_layer(bench, suite, {"decode layer, hidden 1024, batch 1", 1, 1024, 2, 6144, 512, true});
        if (!bench.quick()) {
            measure_layer(bench, suite,
                          {"decode layer, hidden 1024, batch 16", 16, 1024, 2, 6144, 512, true});
            measure_layer(bench, suite,
                          {"decode layer, hidden 4096, batch 1", 1, 4096, 8, 28672, 2048, false});
        }
        for (const char* kernel : {"decode_mma", "decode_paged", "decode_persistent"})
            measure_steps(bench, suite, kernel, bench.quick() ? 16 : 64, 1, 256);
    }
    add_mean(suite, "one by one");
    add_mean(suite, "cublasLt graph");
}

}  // namespace kiln::bench
