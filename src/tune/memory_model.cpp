// SPDX-License-Identifier: Apache-2.0
//
// The model of kernels that declare no tiles, but for those of fused_model.cpp. Most of them stream: their blocks read, reduce and write. A multiprocessor
// holds some blocks at a time, and each lasts a while, however little it does: the latency of its first read, its reductions
// and its stores. So many small blocks, or rows much shorter than a block's threads can read at once, do not reach the
// bandwidth of memory, whose time is only one of those that the estimate joins.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "tune/model_launch.h"

namespace kiln {
namespace {

constexpr double kPlainShare = 0.6;  // of the peak
constexpr double kPlainLaunchMs = 0.004, kPlainBlockMs = 0.00005, kWaveMs = 0.0003;
constexpr double kBytesInFlight = 48 * 1024;  // per multiprocessor, to saturate an H200's memory
// Of blocks that multiply what passes through a pipeline in shared memory, on an H200: what keeps them from its bandwidth is as
// many bytes under way per multiprocessor, up to the most that still gain something, and as few warps, as these. A block
// that shares a multiprocessor has ends of its own to join, and one that waits for its place starts and ends once more.
constexpr double kRingBytes = 20 * 1024, kMostRingBytes = 96 * 1024, kRingWarps = 1.5;
constexpr double kRingBlockMs = 0.0003, kRingWaveMs = 0.004;
// For each doubling of an access beyond the alignment of the rows: it is made by narrower ones.
constexpr double kMisalignedAccess = 1.1;

// Of kernels that stream, fitted to 850 times of 25 drawn problems on an H200.
constexpr double kFewFlops = 16;                             // per byte; with more a kernel does not stream
constexpr double kBlockStartMs = 0.0022;                     // of a block, but for its reads
constexpr double kRoundMs = 0.00039;                         // of one access of each thread
constexpr double kLoopAccesses = 3.8;                        // under way of a thread, in a plain loop
constexpr double kRereads = 0.95;                            // of a row that is not kept: read once more
constexpr double kStreamClusterMs = 0.0015;                  // of barriers between the blocks of a cluster
constexpr double kRegisters = 18, kRegistersPerHeld = 0.51;  // of a thread; for each four bytes under way
constexpr double kAccessMs = 0.00000155;                     // of a multiprocessor, to issue that of a warp
constexpr double kStreamLineBytes = 128;
constexpr double kLeastOfSide =
    4;  // bytes of an access to long rows, next to short ones that follow each other
constexpr double kStreamShare = 0.95;  // of the data sheet's bandwidth
constexpr double kStreamLaunchMs = 0.0042;
constexpr double kOverlap = 1.4;        // exponent of the norm that joins times: 1 adds them
constexpr double kNarrowAccess = 1.05;  // for each doubling, as above
// Of rows that begin anywhere: times as many instructions, in a warp that has one of a row's two ends, whose vectors are
// taken apart; and of all.
constexpr double kCutVectors = 3, kCutRows = 1.05;
constexpr double kManyWaves = 4;  // with fewer the last one counts as a whole one
constexpr double kMostRegisters = 255;

// Of kernels whose blocks stage their rows in shared memory, fitted to 733 times of drawn problems on an H100 (seed 602): of a block,
// and of eight elements of each thread; in nanoseconds of a multiprocessor, of a warp, of an access that its threads have room for,
// and of a wavefront of shared memory; and what joins them.
constexpr double kStagedBlockMs = 0.0015, kStagedElementsMs = 0.0007;
constexpr double kStagedWarpNs = 22.4, kStagedItemNs = 4.5, kStagedWavefrontNs = 0.49;
constexpr double kStagedRegisters = 22, kStagedRegistersPerHeld = 0.87;
constexpr double kStagedShare = 0.87, kStagedLaunchMs = 0.0047, kStagedOverlap = 4;
constexpr double kWidestAccess = 16;  // bytes
constexpr int kBanks = 32, kBankBytes = 4;

/// Wavefronts in which a warp reads `bytes` per lane, where each `threads` lanes read what follows each other, and the next ones
/// `pitch` bytes further.
double wavefronts(int warp_size, int threads, std::int64_t pitch, int bytes) {
    const int together = std::clamp(kBanks * kBankBytes / bytes, 1, warp_size);
    double count = 0;
    std::vector<std::int64_t> words;
    for (int begin = 0; begin < warp_size; begin += together) {
        words.clear();
        for (int lane = begin; lane < std::min(begin + together, warp_size); ++lane) {
            const std::int64_t first = lane / threads * pitch + std::int64_t{lane % threads} * bytes;
            for (std::int64_t word = first / kBankBytes; word <= (first + bytes - 1) / kBankBytes; ++word)
                words.push_back(word);
        }
        std::ranges::sort(words);
        words.erase(std::unique(words.begin(), words.end()),
                    words.end());  // not ranges::unique: clang 15
        std::array<int, kBanks> of_bank{};
        for (const std::int64_t word : words) ++of_bank[static_cast<std::size_t>(word % kBanks)];
        count += std::ranges::max(of_bank);
    }
    return count;
}

}  // namespace

Estimate Model::plain(const Variant& variant, const Problem& problem, const Launch& launch) const {
    if (launch.facts.engine == Engine::fma &&
        static_cast<double>(problem.flops) < kFewFlops * static_cast<double>(problem.bytes))
        return streamed(variant, problem, launch);
    if (launch.facts.engine != Engine::fma && launch.facts.step_tile > 0)
        return fused(variant, problem, launch);
    const double multiprocessors = static_cast<double>(machine_.target.limits.multiprocessors);
    const int at_once = std::max(blocks_at_once(variant, 0), 1);
    // Persistent blocks are as many as the template says, wherever the grid was computed.
    const double blocks =
        launch.facts.blocks > 0 ? static_cast<double>(launch.facts.blocks) * multiprocessors : launch.blocks;
    const double resident = std::min(static_cast<double>(at_once), std::ceil(blocks / multiprocessors));
    // Accesses that are wider than the rows' alignment are made by narrower ones.
    const double width = static_cast<double>(launch.facts.access_elements) * launch.element_bytes;
    const double aligned = std::min(width, row_alignment(problem));
    const double in_flight = launch.threads * aligned * static_cast<double>(launch.facts.accesses);
    double bandwidth = std::min(1.0, std::pow(resident * in_flight / kBytesInFlight, 0.7));
    // What tensor-core instructions read passes through a pipeline in shared memory, of which one stage is in use.
    const bool is_ring = launch.facts.engine != Engine::fma;
    if (is_ring) {
        const double stages = static_cast<double>(std::max<std::int64_t>(launch.facts.stages, 2));
        const double ring = static_cast<double>(variant.dynamic_shared_bytes()) * (stages - 1) / stages;
        const double warps =
            resident * launch.threads / static_cast<double>(machine_.target.limits.warp_size);
        bandwidth =
            1 / std::hypot(1, kRingBytes / std::min(resident * ring, kMostRingBytes), kRingWarps / warps);
    }
    const double used = std::min(1.0, blocks / multiprocessors);
    const double tflops = launch.facts.engine == Engine::fma ? machine_.fma_tflops
                          : launch.facts.engine == Engine::mma && is_half_speed_mma(machine_.target.arch)
                              ? machine_.matrix_tflops * kMmaOfWgmma
                              : machine_.matrix_tflops;
    const double waves = std::ceil(blocks / (multiprocessors * at_once));
    Estimate result;
    result.memory_ms =
        memory_ms(problem) / (bandwidth * used) * std::pow(kMisalignedAccess, std::log2(width / aligned));
    const double flops =
        static_cast<double>(problem.flops) * whole_tiles(launch.facts.edge_tile, launch.facts.edge);
    result.compute_ms = flops / (tflops * 1e9 * kPlainShare * used);
    const double blocks_ms = blocks / multiprocessors * kPlainBlockMs;
    const bool is_persistent_pipeline = is_ring && launch.facts.blocks > 0;
    result.fixed_ms =
        kPlainLaunchMs + (is_persistent_pipeline ? kRingWaveMs : kWaveMs) * std::min(waves, 1000.0);
    if (is_persistent_pipeline) result.fixed_ms += kRingBlockMs * resident;
    result.ms = std::max({result.memory_ms, result.compute_ms, blocks_ms}) + result.fixed_ms;
    result.waves = blocks / (multiprocessors * at_once);
    result.resident = at_once;
    if (is_persistent_pipeline) result.kind = KernelKind::persistent_pipeline;
    return result;
}

Estimate Model::streamed(const Variant& variant, const Problem& problem, const Launch& launch) const {
    const ModelFacts& facts = launch.facts;
    const double multiprocessors = static_cast<double>(machine_.target.limits.multiprocessors);
    if (facts.staged_rows && facts.row <= facts.row_capacity && facts.access_elements > 0 &&
        facts.row % facts.access_elements == 0)
        return staged_rows(variant, problem, launch);
    const double width = static_cast<double>(facts.access_elements) * launch.element_bytes;
    double aligned = std::min(width, row_alignment(problem));
    double accesses = static_cast<double>(facts.accesses), bytes = static_cast<double>(problem.bytes);
    // Whole rows that follow each other are contiguous, and the long ones are read by 4 bytes at least. Strips of rows
    // that are too long for that are moved by element.
    if (facts.side_capacity > 0)
        aligned = facts.side <= facts.side_capacity ? std::max(aligned, std::min(width, kLeastOfSide))
                                                    : launch.element_bytes;
    double read = 0;
    for (const Tensor& tensor : problem.tensors) {
        const auto size = static_cast<double>(tensor.size_bytes());
        if (tensor.role == TensorRole::input || tensor.role == TensorRole::inout) read += size;
        if (tensor.role == TensorRole::scratch) bytes += 2 * size;  // written, and read
    }
    if (facts.any_rows && facts.has_strips) aligned = width;
    const double narrower = facts.row_capacity > 0 ? 1 : std::pow(kNarrowAccess, std::log2(width / aligned));
    const bool is_cut =
        facts.any_rows && !facts.has_strips && facts.row <= facts.row_capacity;  // vectors at a row's ends
    if (is_cut) aligned = width;
    if (facts.row_capacity > 0 && (facts.row > facts.row_capacity || aligned < width)) {
        aligned = launch.element_bytes;
        accesses = kLoopAccesses;
        bytes += read * kRereads;
        read *= 2;
    }
    // Beyond a matrix's last column threads have nothing to do.
    const double busy = 1 / whole_tiles(facts.edge_tile, facts.edge);
    const double held =
        static_cast<double>(facts.access_elements * facts.accesses) * launch.element_bytes / 4;
    const int registers = static_cast<int>(
        std::min({kMostRegisters, kRegisters + kRegistersPerHeld * held,
                  static_cast<double>(machine_.target.limits.registers_per_block) / launch.threads}));
    const double at_once = std::max(blocks_at_once(variant, registers), 1);
    const double blocks = std::max(launch.blocks, 1.0);
    const double rounds = std::max(1.0, read / blocks / (launch.threads * busy * aligned * accesses));

    Estimate result;
    result.waves = blocks / (multiprocessors * at_once);
    const double start_ms = kBlockStartMs + (variant.cluster().count() > 1 ? kStreamClusterMs : 0);
    result.latency_ms =
        (start_ms + rounds * kRoundMs) * (result.waves > kManyWaves ? result.waves : std::ceil(result.waves));
    const auto warp_size = static_cast<double>(machine_.target.limits.warp_size);
    double lines = 1;  // that an access of a warp takes, over those of its bytes
    if (facts.row_capacity > 0) {
        // Rows that begin anywhere leave room for a vector's other elements.
        const std::int64_t held_by_a_thread =
            std::max<std::int64_t>(facts.access_elements * facts.accesses, 1);
        const std::int64_t threads_of_a_row =
            (facts.row_capacity + (facts.any_rows ? facts.access_elements - 1 : 0)) / held_by_a_thread;
        const auto row_threads = static_cast<double>(threads_of_a_row);
        const double rows = std::max(1.0, warp_size / std::max(row_threads, 1.0));
        const double apart = rows * static_cast<double>(facts.row) * launch.element_bytes / kStreamLineBytes;
        lines = std::max(1.0, std::min(rows, apart) / std::max(1.0, warp_size * aligned / kStreamLineBytes));
    }
    result.traffic_ms = bytes / (warp_size * busy * aligned) / multiprocessors * kAccessMs * lines;
    if (is_cut) {
        const double ends = 2 * warp_size * static_cast<double>(facts.access_elements);
        result.traffic_ms *= 1 + (kCutVectors - 1) * std::min(1.0, ends / static_cast<double>(facts.row));
    }
    result.memory_ms = bytes / (machine_.memory_gbps * 1e6 * kStreamShare);
    result.fixed_ms = kStreamLaunchMs;
    double sum = 0;
    for (const double part : {result.latency_ms, result.traffic_ms, result.memory_ms})
        sum += std::pow(part, kOverlap);
    result.ms = std::pow(sum, 1 / kOverlap) * narrower * (is_cut ? kCutRows : 1) + result.fixed_ms;
    result.resident = at_once;
    result.kind = facts.has_strips ? KernelKind::streamed_strips : KernelKind::streamed;
    return result;
}

Estimate Model::staged_rows(const Variant& variant, const Problem& problem, const Launch& launch) const {
    const ModelFacts& facts = launch.facts;
    const Limits& limits = machine_.target.limits;
    const auto multiprocessors = static_cast<double>(limits.multiprocessors);
    const std::int64_t held = std::max<std::int64_t>(facts.access_elements * facts.accesses, 1);
    const std::int64_t row_threads = std::max<std::int64_t>(facts.row_capacity / held, 1);
    const double used =
        std::ceil(static_cast<double>(facts.row) / static_cast<double>(row_threads * facts.access_elements));
    const auto access_bytes = static_cast<double>(facts.access_elements) * launch.element_bytes;
    const double held_bytes = static_cast<double>(held) * launch.element_bytes;
    const double pieces = std::max(1.0, std::floor(launch.shared_bytes / (launch.threads * held_bytes)));
    const int registers = static_cast<int>(
        std::min({kMostRegisters, kStagedRegisters + kStagedRegistersPerHeld * held_bytes / 4,
                  static_cast<double>(limits.registers_per_block) / launch.threads}));
    const double at_once = std::max(blocks_at_once(variant, registers), 1);
    const double blocks = std::max(launch.blocks, 1.0);

    Estimate result;
    result.waves = blocks / (multiprocessors * at_once);
    result.latency_ms =
        (kStagedBlockMs + kStagedElementsMs * used * static_cast<double>(facts.access_elements) / 8) *
        (result.waves > kManyWaves ? result.waves : std::ceil(result.waves));
    const double conflicts =
        wavefronts(static_cast<int>(limits.warp_size),
                   static_cast<int>(std::min<std::int64_t>(row_threads, limits.warp_size)),
                   facts.row * static_cast<std::int64_t>(launch.element_bytes),
                   static_cast<int>(std::clamp(access_bytes, 1.0, kWidestAccess)));
    const double warp_ns = kStagedWarpNs + kStagedItemNs * static_cast<double>(facts.accesses) +
                           kStagedWavefrontNs * used * conflicts * pieces;
    result.traffic_ms = blocks / multiprocessors *
                        std::ceil(launch.threads / static_cast<double>(limits.warp_size)) * warp_ns * 1e-6;
    result.memory_ms = static_cast<double>(problem.bytes) / (machine_.memory_gbps * 1e6 * kStagedShare);
    result.fixed_ms = kStagedLaunchMs;
    double sum = 0;
    for (const double part : {result.latency_ms, result.traffic_ms, result.memory_ms})
        sum += std::pow(part, kStagedOverlap);
    result.ms = std::pow(sum, 1 / kStagedOverlap) + result.fixed_ms;
    result.resident = at_once;
    result.kind = KernelKind::staged_rows;
    return result;
}

}  // namespace kiln
