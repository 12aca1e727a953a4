// SPDX-License-Identifier: Apache-2.0
//
// The model of kernels that multiply on tensor cores and are no GEMM, such as attention: each block has a tile of rows, for
// which it goes through the rows of another matrix, a tile at a time. A multiprocessor's blocks share its tensor
// cores; a block with few warps leaves them idle between its instructions. The blocks that share a tile's work leave
// partial results, which the last of them reads one part after the other.
#include <algorithm>
#include <cmath>

#include "tune/model_launch.h"

namespace kiln {
namespace {

// Fitted to the times of 72 variants for nine problems of attention, on an H100.
constexpr double kFusedWgmmaShare = 0.84, kFusedMmaShare = 0.333;  // of the peak, in wide steps
constexpr double kWgmmaStep = 37, kMmaStep = 9.5;  // a step costs as much as that many more rows
// Of a multiprocessor, that keep its tensor cores busy, and how much fewer of them lose: the exponent.
constexpr double kMmaWarps = 8, kFewWarps = 0.65;
constexpr double kMmaRegisters = 200;    // of a thread
constexpr double kBandwidthShare = 0.9;  // of the data sheet's
constexpr double kFusedLaunchMs = 0.004;
constexpr double kWgmmaBlockMs = 0.0022, kMmaBlockMs = 0.0025;  // before the first step and after the last
constexpr double kStepMs = 0.0006;                              // of a step, at least
constexpr double kJoinMs = 0.0025, kPartMs = 0.00053;           // of the parts together, and of each
constexpr double kManyFusedWaves = 4;  // with fewer the last one counts as a whole one

}  // namespace

Estimate Model::fused(const Variant& variant, const Problem& problem, const Launch& launch) const {
    const ModelFacts& facts = launch.facts;
    const bool is_wgmma = facts.engine == Engine::wgmma;
    const auto multiprocessors = static_cast<double>(machine_.target.limits.multiprocessors);
    const double of_registers =
        static_cast<double>(machine_.target.limits.registers_per_block) /
        (launch.threads * static_cast<double>(std::max<std::int64_t>(facts.blocks, 1)));
    const double registers = is_wgmma ? of_registers : std::min(kMmaRegisters, of_registers);
    const double at_once = std::max(blocks_at_once(variant, static_cast<int>(registers)), 1);
    const double blocks = std::max(launch.blocks, 1.0);
    const double parts = static_cast<double>(std::max<std::int64_t>(facts.parts, 1));
    const double tile = static_cast<double>(std::max<std::int64_t>(facts.step_tile, 1));

    // Tensor cores without wider instructions give mma.sync all that they have.
    double share = is_wgmma                                  ? kFusedWgmmaShare
                   : is_half_speed_mma(machine_.target.arch) ? kFusedMmaShare
                                                             : kFusedMmaShare / kMmaOfWgmma;
    if (facts.step_tile > 0) share *= tile / (tile + (is_wgmma ? kWgmmaStep : kMmaStep));
    const double flops_per_ms = machine_.matrix_tflops * 1e9 / multiprocessors * share;
    const double flops = static_cast<double>(problem.flops) / blocks *
                         whole_tiles(facts.edge_tile, facts.edge) * whole_tiles(facts.step_tile, facts.step);
    const double steps = facts.step_tile > 0 ? std::ceil(static_cast<double>(facts.step) / tile / parts) : 1;
    const double warps = launch.threads / static_cast<double>(machine_.target.limits.warp_size);

    Estimate result;
    /// Of so many blocks of a multiprocessor.
    const auto wave_ms = [&](double resident) {
        const double busy = is_wgmma ? 1 : std::pow(std::min(1.0, resident * warps / kMmaWarps), kFewWarps);
        const double compute = flops * resident / (flops_per_ms * busy);
        result.compute_ms += compute;
        // What a block waits for before its first step and after its last is the time of another's steps.
        if (is_wgmma && resident > 1) return std::max(compute, steps * kStepMs + kWgmmaBlockMs);
        return std::max(compute, steps * kStepMs) + (is_wgmma ? kWgmmaBlockMs : kMmaBlockMs);
    };
    result.waves = blocks / (multiprocessors * at_once);
    double busy = 0;
    if (result.waves > kManyFusedWaves) {
        busy = wave_ms(at_once) * result.waves;
        result.compute_ms *= result.waves;
    } else {
        const double whole = std::floor(result.waves);
        const double rest = blocks - whole * multiprocessors * at_once;
        if (whole > 0) busy += whole * wave_ms(at_once);
        result.compute_ms *= std::max(whole, 1.0);
        if (rest > 0) busy += wave_ms(std::ceil(rest / multiprocessors));
    }
    double bytes = static_cast<double>(problem.bytes);
    for (const Tensor& tensor : problem.tensors)
        if (tensor.role == TensorRole::scratch) bytes += 2 * static_cast<double>(tensor.size_bytes());
    result.memory_ms = bytes / (machine_.memory_gbps * 1e6 * kBandwidthShare);
    result.latency_ms = steps * kStepMs;
    result.fixed_ms = kFusedLaunchMs + (parts > 1 ? kJoinMs + parts * kPartMs : 0);
    result.ms = std::hypot(busy, result.memory_ms) + result.fixed_ms;
    result.resident = at_once;
    result.kind = KernelKind::fused;
    return result;
}

}  // namespace kiln
