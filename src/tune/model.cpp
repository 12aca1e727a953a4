// SPDX-License-Identifier: Apache-2.0
//
// Names that templates share mean the same in all of them: BM, BN and BK are a block's tile, TM and TN a thread's,
// WM and WN a warp's, VEC the elements of an access, UNROLL and ITEMS how many a thread has under way. What a
// template does not name counts as one.
#include "tune/model.h"

#include <kiln/error.h>

#include <algorithm>
#include <cmath>

#include "tune/problem_space.h"

namespace kiln {
namespace {

// Of an architecture that the table of chips lacks: its products differ, its variants' order hardly.
constexpr double kUnknownGbps = 1000;
constexpr double kUnknownTflops = 15;

constexpr double kLaunchMs = 0.002;
// A block's way to its first product and from its last one, on top of moving its results.
constexpr double kBlockMs = 0.0012;
// What all multiprocessors together read of the L2 cache, over what they read of memory. 700 TFLOP/s with tiles of 128
// x 256 need 8.2 TB/s on an H200, whose memory has 4.8.
constexpr double kL2OverMemory = 1.8;
constexpr double kRingBytes = 160 * 1024;  // under way, that cover the latency of a multiprocessor's copies
constexpr double kSpareRegisters = 40;     // addresses, operands
constexpr double kFmaShare = 0.92, kMmaShare = 0.80, kWgmmaShare = 0.85;  // of the peak, at best
// mma.sync reaches this part of the warpgroup instructions' peak on the architectures that have those.
constexpr double kMmaOfWgmma = 0.64;
constexpr double kBytesInFlight = 48 * 1024;  // that keep an H200's memory busy, per multiprocessor

std::int64_t whole(const Variant& variant, std::string_view name, std::int64_t otherwise) {
    const auto found = variant.values().find(name);
    return found != variant.values().end() && found->second.is_int() ? found->second.as_int() : otherwise;
}

bool flag(const Variant& variant, std::string_view name) {
    const auto found = variant.values().find(name);
    return found != variant.values().end() && found->second.is_bool() && found->second.as_bool();
}

bool includes(const Source& source, std::string_view header) {
    return std::ranges::any_of(source.headers, [&](const Header& one) { return one.name == header; });
}

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

struct Model::Launch {
    double blocks = 0;
    double threads = 0;
    double element_bytes = 0;  ///< of the first input
};

Model::Model(const Machine& machine, const Template& of) : machine_(machine) {
    const auto has_size = [&](std::string_view name) {
        return std::ranges::any_of(of.sizes(), [&](const SizeArgument& size) { return size.name == name; });
    };
    has_tiles_ = has_size("m") && has_size("n") && has_size("k");
    if (machine_.target.backend == Backend::host) return;
    try {
        const Source source = of.variant().source(machine_.target.backend);
        engine_ = includes(source, "kiln/wgmma.h")                                    ? Engine::wgmma
                  : includes(source, "kiln/mma.h") || includes(source, "kiln/mfma.h") ? Engine::mma
                                                                                      : Engine::fma;
    } catch (const VariantError&) {
        // Its defaults are not for this target; some of its variants may be.
    }
}

std::optional<double> Model::ms(const Variant& variant, const Problem& problem) const {
    const int distance = distance_from_default(variant);
    if (machine_.target.backend == Backend::host) return 1 + distance;
    Launch launch;
    try {
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
    if (blocks_at_once(variant, 0) == 0) return std::nullopt;
    return has_tiles_ ? tile_ms(variant, problem, launch) : plain_ms(variant, problem, launch);
}

int Model::blocks_at_once(const Variant& variant, int registers) const {
    const BlockNeeds needs{static_cast<int>(variant.block().count()), registers,
                           variant.static_shared_bytes(), variant.dynamic_shared_bytes()};
    try {
        return occupancy(needs, machine_.target.backend, machine_.target.arch).blocks;
    } catch (const UsageError&) {
        // An architecture that the table lacks: shared memory decides as far as the limits tell.
        const std::int64_t shared =
            static_cast<std::int64_t>(needs.static_shared_bytes + needs.dynamic_shared_bytes);
        const std::int64_t by_shared =
            shared == 0 ? 32 : machine_.target.limits.shared_bytes_per_multiprocessor / shared;
        const std::int64_t by_threads =
            machine_.target.limits.threads_per_multiprocessor / std::max(needs.threads, 1);
        return static_cast<int>(std::min(by_shared, by_threads));
    }
}

double Model::tile_ms(const Variant& variant, const Problem& problem, const Launch& launch) const {
    const auto size = [&](const char* name) {
        const auto found = problem.sizes.find(name);
        return found == problem.sizes.end() ? 1.0 : static_cast<double>(found->second);
    };
    const auto value = [&](const char* name, std::int64_t otherwise) {
        return static_cast<double>(whole(variant, name, otherwise));
    };
    const double multiprocessors = static_cast<double>(machine_.multiprocessors);
    // Of templates without them: TILE is both, ROWS and warps of WN are gemm_skinny's, BY and BX a thread each.
    const double bm = value("BM", whole(variant, "TILE", whole(variant, "ROWS", whole(variant, "BY", 1))));
    const double bn = value(
        "BN", whole(variant, "TILE",
                    whole(variant, "WARPS_N", 0) > 0 ? whole(variant, "WARPS_N", 1) * whole(variant, "WN", 16)
                                                     : whole(variant, "BX", 1)));
    const double bk = value("BK", 64);
    const double tiles = ceil_div(size("m"), bm) * ceil_div(size("n"), bn) * size("batch");
    // A grid with more blocks than tiles shares the sums out; one with fewer stays for several.
    const double parts = std::max(1.0, std::floor(launch.blocks / tiles));
    const double depth = ceil_div(ceil_div(size("k"), bk), parts) * bk;
    const double pieces = tiles * parts;

    const double multiplying =
        engine_ == Engine::wgmma && launch.threads > 128 ? launch.threads - 128 : launch.threads;
    const double sums = bm * bn / multiplying;
    int at_once = blocks_at_once(
        variant, static_cast<int>(std::min(
                     {255.0, sums + kSpareRegisters,
                      static_cast<double>(machine_.target.limits.registers_per_block) / launch.threads})));
    at_once = std::max(at_once, 1);
    const double most_resident =
        std::min(static_cast<double>(at_once), ceil_div(std::min(pieces, launch.blocks), multiprocessors));

    double share = kFmaShare, tflops = machine_.fma_tflops;
    if (engine_ == Engine::fma) {
        const double tm = value("TM", 1), tn = value("TN", 1),
                     width = std::min(value("VEC", tm * tn > 1 ? 4 : 1), 4.0);
        share *= tm * tn / (tm * tn + (tm + tn) / std::max(width, 1.0) + 1.5);
    } else {
        tflops = machine_.matrix_tflops;
        if (engine_ == Engine::wgmma) {
            share = kWgmmaShare * bn / (bn + 16);
        } else {
            const double wm = value("WM", whole(variant, "ROWS", 32)), wn = value("WN", 32);
            const bool is_half_speed =
                machine_.target.arch.starts_with("sm_9") || machine_.target.arch.starts_with("sm_10");
            share = (is_half_speed ? kMmaOfWgmma : kMmaShare) * wm * wn / (wm * wn + 16 * (wm + wn) / 2);
        }
    }
    // Few warps leave latencies uncovered.
    const double warps =
        most_resident * launch.threads / static_cast<double>(machine_.target.limits.warp_size);
    if (engine_ != Engine::wgmma) share *= std::min(1.0, std::pow(warps / 8, 0.5));
    if (engine_ == Engine::mma)
        share *= std::min(1.0, 0.55 + 0.15 * value("STAGES", 1) * std::min(most_resident, 2.0));
    if (engine_ == Engine::wgmma) {
        const double ring = most_resident * static_cast<double>(variant.dynamic_shared_bytes());
        share *= std::min(1.0, 0.6 + 0.4 * ring / kRingBytes);
    }
    const bool alternates = flag(variant, "PINGPONG");  // one warpgroup stores while another multiplies

    const double flops_per_ms = tflops * 1e9 / multiprocessors * share;
    const double l2_bytes_per_ms = machine_.memory_gbps * 1e6 * kL2OverMemory / multiprocessors;
    const double compute = 2 * bm * bn * depth / flops_per_ms;
    const double cluster_m = value("CLUSTER", 1), cluster_n = value("CLUSTER_N", 1);
    const double traffic = (bm / cluster_n + bn / cluster_m) * depth * launch.element_bytes / l2_bytes_per_ms;
    // Both at once, and each in the other's way where they take about as long.
    const double product = std::pow(std::pow(compute, 4) + std::pow(traffic, 4), 0.25) *
                           (1 + 0.05 * (cluster_m * cluster_n - 1));
    const double store = bm * bn * 4 / l2_bytes_per_ms * (parts > 1 ? 3 : 1) * (alternates ? 0.3 : 1);
    const double rounds = ceil_div(pieces, multiprocessors);  // of pieces on the busiest multiprocessor
    const double busy =
        rounds * product + ceil_div(rounds, most_resident) * (store + (alternates ? 0.3 : 1) * kBlockMs);
    const double memory = static_cast<double>(problem.bytes) / (machine_.memory_gbps * 1e6 * 0.87);
    return std::max(busy, memory) + kLaunchMs;
}

double Model::plain_ms(const Variant& variant, const Problem& problem, const Launch& launch) const {
    const double multiprocessors = static_cast<double>(machine_.multiprocessors);
    const int at_once = std::max(blocks_at_once(variant, 0), 1);
    const double resident = std::min(static_cast<double>(at_once), ceil_div(launch.blocks, multiprocessors));
    const double under_way =
        resident * launch.threads * static_cast<double>(whole(variant, "VEC", 1)) * launch.element_bytes *
        static_cast<double>(std::max(whole(variant, "UNROLL", 1), whole(variant, "ITEMS", 1)));
    const double bandwidth = std::min(1.0, std::pow(under_way / kBytesInFlight, 0.7));
    const double used = std::min(1.0, launch.blocks / multiprocessors);
    const double memory =
        static_cast<double>(problem.bytes) / (machine_.memory_gbps * 1e6 * 0.87 * bandwidth * used);
    const double tflops = engine_ == Engine::fma ? machine_.fma_tflops : machine_.matrix_tflops;
    const double compute = static_cast<double>(problem.flops) / (tflops * 1e9 * 0.6 * used);
    const double waves = ceil_div(launch.blocks, multiprocessors * at_once);
    return std::max(memory, compute) + kLaunchMs + 0.0003 * std::min(waves, 1000.0);
}

}  // namespace kiln
