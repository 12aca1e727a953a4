// SPDX-License-Identifier: Apache-2.0
//
// The model knows neither templates nor parameters by name. Values that a template's `model` lines do not
// give count as 1.
#include "tune/model.h"

#include <kiln/error.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tune/problem_space.h"

namespace kiln {
namespace {

// For an architecture that the table of chips lacks. Absolute times are then wrong, but the order of variants
// hardly changes.
constexpr double kUnknownGbps = 1000;
constexpr double kUnknownTflops = 15;
// For a template that does not declare them.
constexpr std::int64_t kDepth = 64, kHostDepth = 16;  // steps of k per tile
constexpr std::int64_t kWgmmaStages = 4;

constexpr double kLaunchMs = 0.002;
// The time of a block before its first multiply-add and after its last one, except for storing its results.
constexpr double kBlockMs = 0.0012;
// L2 read bandwidth of all multiprocessors relative to memory bandwidth. 700 TFLOP/s with tiles of 128 x 256 need 8.2
// TB/s on an H200, whose memory has 4.8 TB/s.
constexpr double kL2OverMemory = 1.8;
constexpr double kSpareRegisters = 40;                // addresses, operands
constexpr double kFmaShare = 0.92, kMmaShare = 0.80;  // of the peak, at best
// The fraction of the wgmma peak that mma.sync reaches on architectures that have wgmma.
constexpr double kMmaOfWgmma = 0.64;
// For wgmma with TMA; fitted to the times of 2233 variants for nine shapes on an H200. For each shape, the
// variant that the model puts first is 3 % slower than the best (geometric mean; 10 % at most).
constexpr double kWgmmaShare = 0.84;     // of the peak, for wide tiles
constexpr double kWgmmaColumns = 5.6;    // a step costs as much as that many more columns
constexpr double kOneWarpgroup = 0.875;  // of that rate, if no other warpgroup multiplies while it waits
constexpr double kShortTurns = 0.8;      // likewise, for ping-pong of two warpgroups with 64 rows each
constexpr double kCopyMs = 0.0007;       // from the start of a stage's copies until they have landed
constexpr double kClusterCopies = 0.38;  // additional time for each further block that shares them
constexpr double kTmaOverMemory = 5.5;   // L2 read bandwidth of TMA relative to memory bandwidth
constexpr double kSplitLines = 2.6;  // times as long, if each of a tile's rows of 128 bytes lies in two lines
constexpr double kAnyRows = 2.5;     // times as long, if threads copy what TMA does not support
constexpr double kStores = 4;        // times as long as reading the same number of bytes
constexpr double kWgmmaLaunchMs = 0.0039, kWgmmaTileMs = 0.00007;
// Clusters of 4 leave some multiprocessors of a GPC idle, so part of a grid that fills the device has to
// wait.
constexpr double kWideClusters = 1.25;
constexpr double kBytesInFlight = 48 * 1024;  // per multiprocessor, to saturate an H200's memory

// Of the host, in cycles: about what gemm_tiled for float takes on x86-64 with GCC.
constexpr double kHostVector = 4;      // elements of a vector; two vectors per cycle if contiguous
constexpr double kHostLatency = 4;     // of a multiply-add
constexpr double kHostConversion = 2;  // of an element to float
constexpr double kHostBarriers = 200;  // two of them, with two switches between fibers
constexpr double kHostSets = 256,
                 kHostConflicts = 1.1;  // rows that far apart map to few sets of the L1 cache
constexpr double kHostL1 = 48 * 1024, kHostMisses = 0.1;  // bytes; a block's tiles and stacks should fit
constexpr double kHostStack = 512;                  // bytes of a thread's stack and state that are in use
constexpr double kHostAsync = 4, kHostMatrix = 40;  // emulated instructions take that much longer
constexpr double kHostCyclesPerMs = 2.5e6;
constexpr double kAsDefault = 0.001;  // of equal variants, prefers the one nearest to the defaults

constexpr double kOperandBytes = 2;
constexpr std::int64_t kLineElements = 64;  // of a line of the L2 cache

double ceil_div(double a, double b) { return std::ceil(a / b); }

}  // namespace

Machine::Machine(const Target& of, const std::string& device_name) : target(of) {
    const Chip* const chip = find_chip(target.arch, device_name);
    memory_gbps = chip != nullptr && chip->memory_gbps > 0 ? chip->memory_gbps : kUnknownGbps;
    fma_tflops = chip != nullptr ? chip->fma_f32_tflops.value_or(kUnknownTflops) : kUnknownTflops;
    matrix_tflops = chip != nullptr ? chip->matrix_f16_tflops.value_or(4 * fma_tflops) : 4 * fma_tflops;
    multiprocessors = target.limits.multiprocessors > 0              ? target.limits.multiprocessors
                      : chip != nullptr && chip->multiprocessors > 0 ? chip->multiprocessors
                                                                     : 64;
}

std::string Estimate::text() const {
    const std::pair<const char*, double> parts[] = {{"compute", compute_ms},
                                                    {"L2 traffic", traffic_ms},
                                                    {"memory", memory_ms},
                                                    {"launch, start and stores", fixed_ms}};
    const auto us = [](double of_ms) {
        char text[32];
        std::snprintf(text, sizeof text, "%.3g us", of_ms * 1000);
        return std::string(text);
    };
    std::string text =
        "bound by " +
        std::string(std::ranges::max(parts, {}, [](const auto& one) { return one.second; }).first) + ":";
    for (const auto& [name, part] : parts)
        if (part > 0) text += (text.ends_with(':') ? " " : ", ") + std::string(name) + " " + us(part);
    char count[32];
    std::snprintf(count, sizeof count, "; %.3g waves", waves);
    return text + count;
}

struct Model::Launch {
    double blocks = 0;
    double threads = 0;
    double element_bytes = 0;  ///< of the first input
    ModelFacts facts;
};

/// How a GEMM is partitioned among blocks.
struct Model::Tiling {
    double bm = 0, bn = 0;
    double tiles = 0;
    double parts = 1;  ///< split-K: parts of k of a tile, one block each
    double depth = 0;  ///< steps of k of a part
};

std::optional<Estimate> Model::estimate(const Variant& variant, const Problem& problem) const {
    const int distance = distance_from_default(variant);
    const bool on_host = machine_.target.backend == Backend::host;
    Launch launch;
    try {
        launch.facts = variant.model(problem.sizes);
        if (on_host && !launch.facts.tiles) return Estimate{1.0 + distance};
        launch.blocks = static_cast<double>(grid_of(variant, problem.sizes).count());
    } catch (const VariantError&) {
        return std::nullopt;
    }
    launch.threads = static_cast<double>(variant.block().count());
    launch.element_bytes = 4;
    for (const Tensor& tensor : problem.tensors) {
        if (tensor.role != TensorRole::input) continue;
        launch.element_bytes = static_cast<double>(tensor.element_bytes);
        break;
    }
    if (on_host) return Estimate{tile(variant, problem, launch).ms * (1 + kAsDefault * distance)};
    if (blocks_at_once(variant, 0) == 0) return std::nullopt;
    return launch.facts.tiles ? tile(variant, problem, launch) : plain(variant, problem, launch);
}

int Model::blocks_at_once(const Variant& variant, int registers) const {
    const BlockNeeds needs{static_cast<int>(variant.block().count()), registers,
                           variant.static_shared_bytes(), variant.dynamic_shared_bytes()};
    try {
        return occupancy(needs, machine_.target.backend, machine_.target.arch).blocks;
    } catch (const UsageError&) {
        // An architecture that the table lacks: estimate from the limits of shared memory and threads.
        const std::int64_t shared =
            static_cast<std::int64_t>(needs.static_shared_bytes + needs.dynamic_shared_bytes);
        const std::int64_t by_shared =
            shared == 0 ? 32 : machine_.target.limits.shared_bytes_per_multiprocessor / shared;
        const std::int64_t by_threads =
            machine_.target.limits.threads_per_multiprocessor / std::max(needs.threads, 1);
        return static_cast<int>(std::min(by_shared, by_threads));
    }
}

Estimate Model::tile(const Variant& variant, const Problem& problem, const Launch& launch) const {
    const ModelFacts& facts = launch.facts;
    const ModelFacts::Tiles& of = *facts.tiles;
    const auto number = [](std::int64_t value) { return static_cast<double>(value); };
    const double multiprocessors = static_cast<double>(machine_.multiprocessors);
    const double bm = number(of.rows), bn = number(of.columns), bk = number(of.depth > 0 ? of.depth : kDepth);
    const double tiles = ceil_div(number(of.m), bm) * ceil_div(number(of.n), bn) * number(of.batch);
    // A grid with more blocks than tiles means split-K; with fewer, blocks are persistent.
    const double parts = std::max(1.0, std::floor(launch.blocks / tiles));
    const double depth = ceil_div(ceil_div(number(of.k), bk), parts) * bk;
    const double pieces = tiles * parts;

    if (machine_.target.backend == Backend::host)
        return Estimate{host_ms(variant, launch, {bm, bn, tiles, parts, depth})};
    if (facts.engine == Engine::wgmma) return wgmma(variant, problem, facts, {bm, bn, tiles, parts, depth});
    const double sums = bm * bn / launch.threads;
    int at_once = blocks_at_once(
        variant, static_cast<int>(std::min(
                     {255.0, sums + kSpareRegisters,
                      static_cast<double>(machine_.target.limits.registers_per_block) / launch.threads})));
    at_once = std::max(at_once, 1);
    const double most_resident =
        std::min(static_cast<double>(at_once), ceil_div(std::min(pieces, launch.blocks), multiprocessors));

    double share = kFmaShare, tflops = machine_.fma_tflops;
    if (facts.engine == Engine::fma) {
        const double tm = number(facts.thread_rows), tn = number(facts.thread_columns);
        const double width = std::min(facts.thread_width > 0 ? number(facts.thread_width)
                                      : tm * tn > 1          ? 4.0
                                                             : 1.0,
                                      4.0);
        share *= tm * tn / (tm * tn + (tm + tn) / std::max(width, 1.0) + 1.5);
    } else {
        tflops = machine_.matrix_tflops;
        const double wm = number(facts.warp_rows), wn = number(facts.warp_columns);
        const bool is_half_speed =
            machine_.target.arch.starts_with("sm_9") || machine_.target.arch.starts_with("sm_10");
        share = (is_half_speed ? kMmaOfWgmma : kMmaShare) * wm * wn / (wm * wn + 16 * (wm + wn) / 2);
    }
    // Few warps can't hide latencies.
    const double warps =
        most_resident * launch.threads / static_cast<double>(machine_.target.limits.warp_size);
    share *= std::min(1.0, std::pow(warps / 8, 0.5));
    if (facts.engine == Engine::mma)
        share *= std::min(1.0, 0.55 + 0.15 * number(std::max<std::int64_t>(facts.stages, 1)) *
                                          std::min(most_resident, 2.0));

    const double flops_per_ms = tflops * 1e9 / multiprocessors * share;
    const double l2_bytes_per_ms = machine_.memory_gbps * 1e6 * kL2OverMemory / multiprocessors;
    const double compute = 2 * bm * bn * depth / flops_per_ms;
    const double traffic = (bm + bn) * depth * launch.element_bytes / l2_bytes_per_ms;
    // Both overlap, and slow each other down when they take about equally long.
    const double product = std::pow(std::pow(compute, 4) + std::pow(traffic, 4), 0.25);
    const double store = bm * bn * 4 / l2_bytes_per_ms * (parts > 1 ? 3 : 1);
    const double rounds = ceil_div(pieces, multiprocessors);  // pieces on the busiest multiprocessor
    const double busy = rounds * product + ceil_div(rounds, most_resident) * (store + kBlockMs);
    const double memory = static_cast<double>(problem.bytes) / (machine_.memory_gbps * 1e6 * 0.87);
    Estimate result;
    result.ms = std::max(busy, memory) + kLaunchMs;
    result.compute_ms = rounds * compute;
    result.traffic_ms = rounds * traffic;
    result.memory_ms = memory;
    result.fixed_ms = ceil_div(rounds, most_resident) * (store + kBlockMs) + kLaunchMs;
    result.waves = pieces / multiprocessors;
    return result;
}

// A pipeline of stages that TMA fills and warpgroups consume; blocks are persistent.
Estimate Model::wgmma(const Variant& variant, const Problem& problem, const ModelFacts& facts,
                      const Tiling& tiling) const {
    const double multiprocessors = static_cast<double>(machine_.multiprocessors);
    const double down = static_cast<double>(std::max<std::int64_t>(facts.cluster_rows, 1));
    const double right = static_cast<double>(std::max<std::int64_t>(facts.cluster_columns, 1));
    const double sharers = down * right;
    const double stages = static_cast<double>(facts.stages > 0 ? facts.stages : kWgmmaStages);
    const double step = static_cast<double>(facts.tiles->depth > 0 ? facts.tiles->depth : kDepth);
    const double blocks = std::max(
        1.0, std::min(static_cast<double>(facts.blocks), static_cast<double>(blocks_at_once(variant, 0))));

    const double places = std::max(std::floor(multiprocessors / sharers), 1.0) * sharers * blocks;
    const double pieces = ceil_div(tiling.tiles, sharers) * sharers * tiling.parts;
    const double rounds = ceil_div(pieces, places);
    const double beside = std::clamp(pieces / multiprocessors, 1.0, blocks);  // on one multiprocessor

    double share = kWgmmaShare * tiling.bn / (tiling.bn + kWgmmaColumns);
    if (tiling.bm <= 64) share *= facts.pingpong ? kShortTurns : blocks == 1 ? kOneWarpgroup : 1;
    const double compute =
        2 * tiling.bm * tiling.bn * step / (machine_.matrix_tflops * 1e9 / multiprocessors * share) * beside;
    const double l2_bytes_per_ms = machine_.memory_gbps * 1e6 * kTmaOverMemory / multiprocessors;
    const auto lines = [](std::int64_t row) { return row % kLineElements == 0 ? 1 : kSplitLines; };
    const double traffic =
        (tiling.bm / right * lines(facts.tiles->k) + tiling.bn / down * lines(facts.tiles->n)) * step *
        kOperandBytes / l2_bytes_per_ms * beside;
    // While one stage is multiplied, the copies of the others are in flight.
    const double copies = kCopyMs * (1 + kClusterCopies * (sharers - 1)) / std::max(stages - 1, 1.0);
    double product = std::pow(std::pow(compute, 4) + std::pow(traffic, 4) + std::pow(copies, 4), 0.25) *
                     tiling.depth / step;
    if (facts.copies != Copies::tma) product *= kAnyRows;
    const double store =
        tiling.bm * tiling.bn * 4 / l2_bytes_per_ms * kStores * (tiling.parts > 1 ? 3 : 1) + kWgmmaTileMs;
    double busy = facts.pingpong ? rounds * product + store : rounds * (product + store);
    if (sharers > 2 && pieces > 0.9 * places) busy *= kWideClusters;
    const double memory = static_cast<double>(problem.bytes) / (machine_.memory_gbps * 1e6 * 0.87);
    Estimate result;
    result.ms = std::max(busy, memory) + kWgmmaLaunchMs + kCopyMs;
    result.compute_ms = rounds * compute * tiling.depth / step;
    result.traffic_ms = rounds * traffic * tiling.depth / step;
    result.memory_ms = memory;
    result.fixed_ms = (facts.pingpong ? 1 : rounds) * store + kWgmmaLaunchMs + kCopyMs;
    result.waves = pieces / places;
    return result;
}

// A thread after the other: what it computes between two barriers, and what it takes to change threads there.
double Model::host_ms(const Variant& variant, const Launch& launch, const Tiling& tiling) const {
    const ModelFacts& facts = launch.facts;
    const double bk = static_cast<double>(facts.tiles->depth > 0 ? facts.tiles->depth : kHostDepth);
    const double sums = tiling.bm * tiling.bn / launch.threads;
    const double lanes =
        static_cast<double>(facts.thread_width) >= kHostVector ? 2 * kHostVector : kHostVector;
    double step = std::max(kHostLatency, sums / lanes) + 1;
    if (launch.element_bytes < 4)
        step += static_cast<double>(facts.thread_rows + facts.thread_columns) * kHostConversion;
    const double elements = (tiling.bm + tiling.bn) * bk / launch.threads;
    double cycles = bk * step + kHostBarriers + elements;
    const double row_bytes = (tiling.bn + static_cast<double>(facts.padding)) * launch.element_bytes;
    if (std::fmod(row_bytes, kHostSets) == 0) cycles *= kHostConflicts;
    const double held = static_cast<double>(variant.dynamic_shared_bytes()) + launch.threads * kHostStack;
    cycles *= std::max(1.0, 1 + kHostMisses * (held / kHostL1 - 1));
    if (facts.copies == Copies::async) cycles *= kHostAsync;
    if (facts.engine != Engine::fma) cycles *= kHostMatrix;
    const double thread = ceil_div(tiling.depth, bk) * cycles + 2 * sums + kHostBarriers;
    const double pieces =
        ceil_div(tiling.tiles * tiling.parts, static_cast<double>(machine_.multiprocessors));
    return pieces * launch.threads * thread / kHostCyclesPerMs;
}

Estimate Model::plain(const Variant& variant, const Problem& problem, const Launch& launch) const {
    const double multiprocessors = static_cast<double>(machine_.multiprocessors);
    const int at_once = std::max(blocks_at_once(variant, 0), 1);
    const double resident = std::min(static_cast<double>(at_once), ceil_div(launch.blocks, multiprocessors));
    const double under_way = resident * launch.threads * static_cast<double>(launch.facts.access_elements) *
                             launch.element_bytes * static_cast<double>(launch.facts.accesses);
    const double bandwidth = std::min(1.0, std::pow(under_way / kBytesInFlight, 0.7));
    const double used = std::min(1.0, launch.blocks / multiprocessors);
    const double memory =
        static_cast<double>(problem.bytes) / (machine_.memory_gbps * 1e6 * 0.87 * bandwidth * used);
    const double tflops = launch.facts.engine == Engine::fma ? machine_.fma_tflops : machine_.matrix_tflops;
    const double compute = static_cast<double>(problem.flops) / (tflops * 1e9 * 0.6 * used);
    const double waves = ceil_div(launch.blocks, multiprocessors * at_once);
    Estimate result;
    result.fixed_ms = kLaunchMs + 0.0003 * std::min(waves, 1000.0);
    result.ms = std::max(memory, compute) + result.fixed_ms;
    result.compute_ms = compute;
    result.memory_ms = memory;
    result.waves = launch.blocks / (multiprocessors * at_once);
    return result;
}

}  // namespace kiln
