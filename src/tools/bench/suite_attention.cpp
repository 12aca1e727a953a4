// SPDX-License-Identifier: Apache-2.0
//
// Attention of whole sequences, which is bound by tensor cores, and decode attention, which is bound by
// memory.
#include <algorithm>

#include "bench/comparator_run.h"
#include "bench/suites.h"
#include "bench/torch.h"
#include "format/format.h"

namespace kiln::bench {
namespace {

struct Forward {
    std::int64_t batch, heads, tokens;
    int head;
    bool causal;

    Sizes sizes() const {
        return {{"batch", batch}, {"kv_heads", heads}, {"group", 1}, {"queries", tokens}, {"keys", tokens}};
    }
    Values values() const { return {{"T", "half"}, {"HEAD_DIM", head}, {"CAUSAL", causal}}; }
    std::string text() const {
        return formatted("head {}{}{} tokens, batch {}, {} heads", head, causal ? " causal " : " full ",
                         tokens, batch, heads);
    }
    std::string part() const { return formatted("head{}", head); }
    /// As the PyTorch script reads it.
    std::string line() const {
        return formatted("attention {} {} {} {}{}", batch, heads, tokens, head, causal ? " 1" : " 0");
    }
};

const std::vector<std::string> kForward = {"attention_wgmma", "attention_mma", "attention"};

/// 16384 tokens in all, 2048 elements per token.
std::vector<Forward> forward_problems(const Benchmark& bench) {
    std::vector<Forward> list;
    if (!bench.on_gpu()) return {{1, 2, 40, 64, false}, {1, 1, 33, 64, true}};
    for (const int head : {64, 128})
        for (const bool causal : {false, true})
            for (const std::int64_t tokens : {4096, 16384})
                if (!bench.quick() || (head == 128) == (tokens == 16384))
                    list.push_back({16384 / tokens, 2048 / head, tokens, head, causal});
    return list;
}

struct Step {
    std::int64_t batch, length;
    Sizes sizes() const { return {{"batch", batch}, {"kv_heads", 8}, {"max_length", length}}; }
    std::string part() const { return formatted("batch{}", batch); }
    std::string text() const { return formatted("batch {}, {} tokens each", batch, length); }
};

const std::vector<std::string> kDecode = {"decode_mma", "decode_persistent", "decode_paged"};

}  // namespace

void fill_lengths(Problem& problem) {
    if (std::ranges::find(problem.tensors, "lengths", &Tensor::name) == problem.tensors.end()) return;
    std::int64_t batch = 0, length = 0, elements_per_token = 0, element_bytes = 2, out = 0;
    for (Tensor& tensor : problem.tensors) {
        if (tensor.name == "lengths") {
            tensor.low = tensor.high;
            batch = tensor.extents[0];
            length = tensor.high;
        }
        if (tensor.name == "k_cache") elements_per_token = tensor.extents[1] * tensor.extents[3];
        if (tensor.name == "o") {
            out = tensor.count();
            element_bytes = static_cast<std::int64_t>(tensor.element_bytes);
        }
    }
    problem.bytes = (2 * batch * length * elements_per_token + 2 * out) * element_bytes;
    problem.flops = 4 * out * length;
}

void run_attention(Benchmark& bench, BenchSuite& suite) {
    std::vector<Forward> problems = forward_problems(bench);
    std::erase_if(problems,
                  [&](const Forward& one) { return !bench.measures(suite, one.part(), one.text()); });
    if (problems.empty()) return;
    std::vector<Benchmark::Wanted> wanted;
    for (const Forward& one : problems) wanted.push_back({kForward, one.values(), one.sizes()});
    bench.prepare(suite, wanted);
    for (const Forward& one : problems) {
        bench.row(suite, one.text(), [&](BenchRow& row) {
            ComparatorRun run(bench, row, bench.choose(kForward, one.values(), one.sizes()), one.sizes());
            const Aim aim = one.head == 64 ? Aim{0.95, 1.20} : Aim{0.90, 1.10};
            if (TorchProcess* const torch = bench.torch(suite))
                run.add_torch(*torch, one.line(), {{"cuDNN", aim}});
            run.time();
            set_flops_rate(row, run.kernel().problem());
            if (const auto share = roof_share(row, bench.ceilings(suite), run.kernel().problem(), true))
                row.comparisons.push_back(*share);
        });
    }
    add_mean(suite, "cuDNN");
    add_mean(suite, "FlashAttention");
}

void run_decode(Benchmark& bench, BenchSuite& suite) {
    std::vector<Step> steps;
    if (!bench.on_gpu())
        steps = {{16, 70}};
    else if (bench.quick())
        steps = {{16, 1024}, {64, 4096}};
    else
        steps = {{16, 1024}, {16, 8192},  {16, 32768}, {64, 1024},
                 {64, 8192}, {64, 32768}, {128, 1024}, {128, 8192}};
    std::erase_if(steps, [&](const Step& step) { return !bench.measures(suite, step.part(), step.text()); });
    if (steps.empty()) return;
    std::vector<Benchmark::Wanted> wanted;
    for (const Step& step : steps) wanted.push_back({kDecode, {}, step.sizes()});
    bench.prepare(suite, wanted);
    for (const Step& step : steps) {
        bench.row(suite, step.text(), [&](BenchRow& row) {
            ComparatorRun run(bench, row, bench.choose(kDecode, {}, step.sizes()), step.sizes(),
                              fill_lengths);
            run.time();
            const Problem& problem = run.kernel().problem();
            set_bytes_rate(row, problem);
            if (const double rate = bench.ceilings(suite).copy_bytes_per_us; rate > 0)
                row.comparisons.push_back(
                    share_of(row, "copy", static_cast<double>(problem.bytes) / rate, 0.80, 0.90));
        });
    }
    add_mean(suite, "copy");
}

}  // namespace kiln::bench
