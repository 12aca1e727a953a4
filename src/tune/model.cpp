// SPDX-License-Identifier: Apache-2.0
//
// The model knows neither templates nor parameters by name. Values that a template's `model` lines do not
// give count as 1.
#include "tune/model.h"

#include <kiln/error.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <initializer_list>
#include <mutex>
#include <numeric>

#include "format/format.h"
#include "tune/model_launch.h"
#include "tune/problem_space.h"

namespace kiln {
namespace {

// For an architecture that the table of chips lacks. Absolute times are then wrong, but the order of variants
// hardly changes.
constexpr double kUnknownGbps = 1000;
constexpr std::int64_t kUnknownMultiprocessors = 64;
constexpr double kUnknownTflops = 15;
// For a template that does not declare them.
constexpr std::int64_t kDepth = 64, kHostDepth = 16;  // steps of k per tile
constexpr std::int64_t kWgmmaStages = 4;

constexpr double kMemoryShare = 0.85;  // of the data sheet's bandwidth, at best
// L2 read bandwidth of all multiprocessors relative to memory bandwidth, for loads that threads issue.
constexpr double kL2OverMemory = 1.14;
constexpr double kSpareRegisters = 40;  // addresses, operands
// Of the peak, at best: of tiles that threads copy through registers, and by cp.async.
constexpr double kFmaShare = 0.68, kFmaAsyncShare = 0.74;
constexpr double kMmaShare = 0.80;  // of the matrix peak, that mma.sync reaches where there is no wgmma

/// What tiles cost that threads copy, by how they do it. Fitted to 6200 times of 70 drawn shapes on an H200, and for FMA
/// to 2000 of 28.
struct TileCosts {
    double latency_ms;  ///< of a step of 64 elements of k, if its copies are not under way before
    double depth;       ///< how it grows with longer steps: the exponent
    double misaligned;  ///< times as long for each halving of the rows' alignment below 16 bytes
    double stores;      ///< of the results: times as long as reading the same number of bytes
    double block_ms;    ///< before the first step and after the last
    double launch_ms;
    double split_ms;       ///< that joining the parts of k takes
    double copy_ms = 0;    ///< for each copy that a thread makes of a step, in addition to the latency
    double result_ms = 0;  ///< for each result of a thread, to store it
    double joined = 0;     ///< of the parts of k: times as long as reading the same number of bytes
};
constexpr TileCosts kFmaThroughRegisters{0.00216, 0.38,  0.92,     0.008,    0.000007,
                                         0.00277, 0.001, 0.000073, 0.0000186};
constexpr TileCosts kFmaAsync{0.00054, 0.024, 1.17, 0.74, 0.00081, 0.004, 0.0008, 0.000037, 0.000097, 0.5};
/// Threads that load their operands from global memory, with the next step under way; what a step costs beyond its latency
/// is counted by elements, not by accesses. Fitted to 8754 times of 273 drawn shapes on an H200.
constexpr TileCosts kFmaDirect{0.00027, 0, 1, 1, 0.0008, 0.0044, 0.00125, 0.0000276, 0, 0.89};
constexpr double kFmaDirectShare = 0.39;      // of the peak
constexpr double kFmaDirectConversion = 0.5;  // of that, where elements become floats
constexpr TileCosts kMmaStaged{0.0012, 0.33, 1.5, 2.8, 0.0006, 0.005, 0.001};
/// Warps that share the steps of k of a tile, and load their operands from global memory.
constexpr TileCosts kMmaDirect{0.00013, 0.3, 1.4, 3.3, 0.00001, 0.0034, 0.0028};
constexpr double kMmaDirectShare = 0.1;  // of the peak
constexpr double kDirectStages = 2;      // of a template that does not declare them
constexpr double kShiftedRows = 1;  // halvings of the alignment that shifting every access into place costs

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
// Steps that threads copy, since TMA does not support the rows: times as long, and at least so long.
constexpr double kAnyRows = 2.5, kAnyRowsMs = 0.001, kAnyRowsLaunchMs = 0.002;
constexpr double kStores = 4;  // times as long as reading the same number of bytes
// Of a tile that one block computes: a warp's stores from registers write half a line each.
constexpr double kRegisterStores = 2;
constexpr double kWgmmaLaunchMs = 0.0039, kWgmmaTileMs = 0.00007, kClusterMs = 0.0002, kWgmmaSplitMs = 0.001;
constexpr double kLeastStored = 0.25;  // of a tile, if the problem is smaller
// Clusters of 4 leave some multiprocessors of a GPC idle, so part of a grid that fills the device has to
// wait.
constexpr double kWideClusters = 1.25;

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

/// Of times that overlap: they slow each other down when they are about equally long.
double overlapped(std::initializer_list<double> times) {
    double sum = 0;
    for (const double time : times) sum += time * time * time * time;
    return std::sqrt(std::sqrt(sum));
}

/// Tiles along one side of the results, of whole clusters.
double covered(std::int64_t extent, std::int64_t tile, std::int64_t cluster) {
    const double blocks = static_cast<double>(std::max<std::int64_t>(cluster, 1));
    return ceil_div(static_cast<double>(extent), static_cast<double>(tile) * blocks) * blocks;
}

/// Of a tile's results, the part that is stored at the edge of a small problem.
double stored(double extent, double tile) { return std::clamp(extent / tile, kLeastStored, 1.0); }

}  // namespace

bool is_half_speed_mma(const std::string& arch) {
    return arch.starts_with("sm_9") || arch.starts_with("sm_10");
}

double whole_tiles(std::int64_t tile, std::int64_t rows) {
    if (tile <= 0 || rows <= 0) return 1;
    const auto of = static_cast<double>(tile), all = static_cast<double>(rows);
    return std::ceil(all / of) * of / all;
}

double row_alignment(const Problem& problem) {
    std::int64_t bytes = 16;
    for (const Tensor& tensor : problem.tensors)
        if (tensor.role == TensorRole::input && tensor.extents.size() > 1)
            bytes = std::gcd(bytes, tensor.extents.back() * static_cast<std::int64_t>(tensor.element_bytes));
    return static_cast<double>(std::max<std::int64_t>(bytes, 1));
}

struct Machine::Lazy {
    std::string device;
    std::once_flag once;
    Calibration calibration;
    std::string problem;
    std::atomic<bool> is_read = false;
};

Machine::Machine(const Target& of, const std::string& device_name)
    : target(of), lazy_(std::make_shared<Lazy>()) {
    lazy_->device = device_name;
    const Chip* const chip = find_chip(target.arch, device_name);
    memory_gbps = chip != nullptr && chip->memory_gbps > 0 ? chip->memory_gbps : kUnknownGbps;
    fma_tflops = chip != nullptr ? chip->fma_f32_tflops.value_or(kUnknownTflops) : kUnknownTflops;
    matrix_tflops = chip != nullptr ? chip->matrix_f16_tflops.value_or(4 * fma_tflops) : 4 * fma_tflops;
    std::int64_t& multiprocessors = target.limits.multiprocessors;
    if (multiprocessors <= 0)
        multiprocessors =
            chip != nullptr && chip->multiprocessors > 0 ? chip->multiprocessors : kUnknownMultiprocessors;
}

const Calibration& Machine::calibration() const {
    std::call_once(lazy_->once, [&] {
        lazy_->calibration = Calibration::usual(lazy_->device, target.arch, &lazy_->problem);
        lazy_->is_read = true;
    });
    return lazy_->calibration;
}

std::string Machine::calibration_problem() const { return lazy_->is_read ? lazy_->problem : std::string(); }

std::string Estimate::text() const {
    const std::pair<const char*, double> parts[] = {{"compute", compute_ms},
                                                    {"L2 traffic", traffic_ms},
                                                    {"latency", latency_ms},
                                                    {"memory", memory_ms},
                                                    {"launch, start and stores", fixed_ms}};
    const auto& [limit, longest] = std::ranges::max(parts, {}, [](const auto& one) { return one.second; });
    if (longest == 0) return "estimated for the host";
    std::string text = formatted("bound by {}:", limit);
    for (const auto& [name, part] : parts)
        if (part > 0)
            text += formatted("{}{} {:.3g} us", text.ends_with(':') ? " " : ", ", name, part * 1000);
    text += formatted("; {:.3g} waves", waves);
    if (factor != 1) text += formatted("; calibrated by {:.3g}", factor);
    return text;
}

/// How a GEMM is partitioned among blocks.
struct Model::Tiling {
    double bm = 0, bn = 0;
    double tiles = 0, parts = 1;  ///< of Launch
    double depth = 0;             ///< steps of k of a part
};

std::optional<Model::Launch> Model::launch_of(const Variant& variant, const Problem& problem) const {
    Launch launch;
    try {
        launch.facts = variant.model(problem.sizes);
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
    launch.shared_bytes = static_cast<double>(variant.static_shared_bytes() + variant.dynamic_shared_bytes());
    if (launch.facts.tiles) {
        const ModelFacts::Tiles& of = *launch.facts.tiles;
        launch.tiles = covered(of.m, of.rows, launch.facts.cluster_rows) *
                       covered(of.n, of.columns, launch.facts.cluster_columns) *
                       static_cast<double>(of.batch);
        // A grid with more blocks than tiles means split-K; with fewer, blocks are persistent.
        launch.parts = std::max(1.0, std::floor(launch.blocks / launch.tiles));
    }
    return launch;
}

std::optional<Estimate> Model::estimate(const Variant& variant, const Problem& problem) const {
    if (machine_.target.backend == Backend::host) {
        const std::optional<Launch> launch = launch_of(variant, problem);
        if (!launch) return std::nullopt;
        const double distance = distance_from_default(variant);
        if (!launch->facts.tiles) return Estimate{1.0 + distance};
        return Estimate{tile(variant, problem, *launch).ms * (1 + kAsDefault * distance)};
    }
    Features features;
    std::optional<Estimate> found = uncalibrated(variant, problem, features);
    if (!found) return found;
    found->factor = factor_of(machine_.calibration(), found->kind, features);
    found->ms *= found->factor;
    return found;
}

std::optional<Estimate> Model::uncalibrated(const Variant& variant, const Problem& problem,
                                            Features& features) const {
    const std::optional<Launch> launch = launch_of(variant, problem);
    if (!launch || blocks_at_once(variant, 0) == 0) return std::nullopt;
    const Estimate found =
        launch->facts.tiles ? tile(variant, problem, *launch) : plain(variant, problem, *launch);
    features = features_of(*launch, problem, found);
    return found;
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
    const double multiprocessors = static_cast<double>(machine_.target.limits.multiprocessors);
    const double bm = number(of.rows), bn = number(of.columns), bk = number(of.depth > 0 ? of.depth : kDepth);
    const double tiles = launch.tiles, parts = launch.parts;
    const double depth = ceil_div(ceil_div(number(of.k), bk), parts) * bk;
    const double pieces = tiles * parts;

    if (machine_.target.backend == Backend::host)
        return Estimate{host_ms(variant, launch, {bm, bn, tiles, parts, depth})};
    if (facts.engine == Engine::wgmma) return wgmma(variant, problem, facts, {bm, bn, tiles, parts, depth});
    const bool is_direct = facts.engine == Engine::fma && facts.copies == Copies::direct;
    const double sums =
        is_direct ? number(facts.thread_rows * facts.thread_columns) : bm * bn / launch.threads;
    const double at_once = std::max(
        blocks_at_once(variant, static_cast<int>(std::min(
                                    {255.0, sums + kSpareRegisters,
                                     static_cast<double>(machine_.target.limits.registers_per_block) /
                                         launch.threads}))),
        1);
    const double warp_size = static_cast<double>(machine_.target.limits.warp_size);

    const bool is_async = facts.copies == Copies::async;
    double share = is_async    ? kFmaAsyncShare
                   : is_direct ? kFmaDirectShare
                               : kFmaShare,
           tflops = machine_.fma_tflops, sharers = 1;
    TileCosts costs = is_async ? kFmaAsync : is_direct ? kFmaDirect : kFmaThroughRegisters;
    if (facts.engine == Engine::fma) {
        const double tm = number(facts.thread_rows), tn = number(facts.thread_columns);
        const double width = std::min(facts.thread_width > 0 ? number(facts.thread_width)
                                      : tm * tn > 1          ? 4.0
                                                             : 1.0,
                                      4.0);
        share *= tm * tn / (tm * tn + (tm + tn) / std::max(width, 1.0) + 1.5);
        share *= launch.threads / (ceil_div(launch.threads, warp_size) * warp_size);
        if (is_direct && launch.element_bytes < sizeof(float)) share *= kFmaDirectConversion;
    } else {
        tflops = machine_.matrix_tflops;
        const double wm = number(facts.warp_rows), wn = number(facts.warp_columns);
        share = is_half_speed_mma(machine_.target.arch) ? kMmaOfWgmma : kMmaShare;
        costs = kMmaStaged;
        sharers =
            std::max(1.0, std::floor(launch.threads / warp_size / (ceil_div(bm, wm) * ceil_div(bn, wn))));
        if (sharers > 1) {
            share = kMmaDirectShare;
            costs = kMmaDirect;
        }
        share *= wm * wn / (wm * wn + 16 * (wm + wn) / 2);
    }
    const double step = bk * sharers;  // of k, of all warps
    const double steps = ceil_div(ceil_div(number(of.k), parts), step);
    const double narrow = facts.any_rows ? kShiftedRows : std::log2(16 / row_alignment(problem));
    const double slower = std::pow(costs.misaligned, narrow);
    const double ahead = !is_async          ? 1
                         : facts.stages > 0 ? std::max(number(facts.stages) - 1, 1.0)
                                            : kDirectStages - 1;
    const double l2_bytes_per_ms = machine_.memory_gbps * 1e6 * kL2OverMemory / multiprocessors;
    // Copies are as wide as declared, where rows are aligned so.
    const double width = is_direct                ? launch.element_bytes
                         : facts.thread_width > 0 ? number(facts.thread_width) * launch.element_bytes
                                                  : 16;
    const double copies = (bm + bn) * bk * launch.element_bytes / launch.threads /
                          std::min(width, std::max(row_alignment(problem), launch.element_bytes));
    const double latency =
        (costs.latency_ms * slower * std::pow(bk / 64, costs.depth) + costs.copy_ms * copies) / ahead;
    const double store = bm * bn * 4 / l2_bytes_per_ms * costs.stores * (parts > 1 ? 3 : 1) *
                             stored(number(of.m), bm) * stored(number(of.n), bn) +
                         costs.result_ms * number(facts.thread_rows * facts.thread_columns);
    Estimate result;
    /// Of blocks of which so many are on a multiprocessor. Few warps can't hide latencies.
    const auto wave = [&](double resident) {
        const double hidden = std::min(1.0, std::sqrt(resident * launch.threads / warp_size / 8));
        const double compute =
            2 * bm * bn * step / (tflops * 1e9 / multiprocessors * share * hidden) * resident;
        const double traffic = (bm + bn) * step * launch.element_bytes / l2_bytes_per_ms * resident * slower;
        result.compute_ms += steps * compute;
        result.traffic_ms += steps * traffic;
        result.latency_ms += steps * latency;
        result.fixed_ms += store * resident + costs.block_ms;
        return steps * overlapped({compute, traffic, latency}) + store * resident + costs.block_ms;
    };
    const double places = multiprocessors * at_once;
    const double waves = std::floor(pieces / places), rest = pieces - waves * places;
    double busy = 0;
    if (waves > 0) {
        busy = waves * wave(at_once);
        for (double* const part :
             {&result.compute_ms, &result.traffic_ms, &result.latency_ms, &result.fixed_ms})
            *part *= waves;
    }
    if (rest > 0) busy += wave(ceil_div(rest, multiprocessors));
    result.memory_ms = memory_ms(problem);
    const double joining = costs.split_ms + costs.joined * parts * bm * bn * 4 / l2_bytes_per_ms;
    const double launching = costs.launch_ms + (parts > 1 ? joining : 0);
    result.fixed_ms += launching;
    result.ms = overlapped({busy, result.memory_ms}) + launching;
    result.waves = pieces / places;
    result.resident = at_once;
    result.kind = facts.engine != Engine::fma ? sharers > 1 ? KernelKind::mma_direct : KernelKind::mma_staged
                  : is_async                  ? KernelKind::fma_async
                  : is_direct                 ? KernelKind::fma_direct
                                              : KernelKind::fma_registers;
    return result;
}

double Model::memory_ms(const Problem& problem) const {
    return static_cast<double>(problem.bytes) / (machine_.memory_gbps * 1e6 * kMemoryShare);
}

// A pipeline of stages that TMA fills and warpgroups consume; blocks are persistent.
Estimate Model::wgmma(const Variant& variant, const Problem& problem, const ModelFacts& facts,
                      const Tiling& tiling) const {
    const double multiprocessors = static_cast<double>(machine_.target.limits.multiprocessors);
    const double down = static_cast<double>(std::max<std::int64_t>(facts.cluster_rows, 1));
    const double right = static_cast<double>(std::max<std::int64_t>(facts.cluster_columns, 1));
    const double sharers = down * right;
    const double stages = static_cast<double>(facts.stages > 0 ? facts.stages : kWgmmaStages);
    const double step = static_cast<double>(facts.tiles->depth > 0 ? facts.tiles->depth : kDepth);
    const double blocks = std::max(
        1.0, std::min(static_cast<double>(facts.blocks), static_cast<double>(blocks_at_once(variant, 0))));

    const double places = std::max(std::floor(multiprocessors / sharers), 1.0) * sharers * blocks;
    const double pieces = tiling.tiles * tiling.parts;
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
    double product = overlapped({compute, traffic, copies});
    if (facts.copies != Copies::tma) product = overlapped({product * kAnyRows, kAnyRowsMs});
    product *= tiling.depth / step;
    const bool from_registers = facts.copies == Copies::tma && !facts.staged_store;
    const double store = tiling.bm * tiling.bn * 4 / l2_bytes_per_ms * kStores *
                             (tiling.parts > 1 ? 3
                              : from_registers ? kRegisterStores
                                               : 1) *
                             stored(static_cast<double>(facts.tiles->m), tiling.bm) *
                             stored(static_cast<double>(facts.tiles->n), tiling.bn) +
                         kWgmmaTileMs;
    // One warpgroup of a ping-pong stores while the other multiplies.
    double busy = facts.pingpong ? rounds * std::max(product, (product + store) / 2) + store
                                 : rounds * (product + store);
    if (sharers > 2 && pieces > 0.9 * places) busy *= kWideClusters;
    const double launching = kWgmmaLaunchMs + kCopyMs + (sharers > 1 ? kClusterMs : 0) +
                             (tiling.parts > 1 ? kWgmmaSplitMs : 0) +
                             (facts.copies != Copies::tma ? kAnyRowsLaunchMs : 0);
    Estimate result;
    result.memory_ms = memory_ms(problem);
    result.ms = overlapped({busy, result.memory_ms}) + launching;
    result.compute_ms = rounds * compute * tiling.depth / step;
    result.traffic_ms = rounds * traffic * tiling.depth / step;
    result.latency_ms = rounds * copies * tiling.depth / step;
    result.fixed_ms = (facts.pingpong ? 1 : rounds) * store + launching;
    result.waves = pieces / places;
    result.resident = blocks;
    result.kind = facts.copies == Copies::tma ? KernelKind::wgmma_tma : KernelKind::wgmma_registers;
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
        ceil_div(tiling.tiles * tiling.parts, static_cast<double>(machine_.target.limits.multiprocessors));
    return pieces * launch.threads * thread / kHostCyclesPerMs;
}

}  // namespace kiln
