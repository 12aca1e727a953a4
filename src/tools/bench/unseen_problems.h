// SPDX-License-Identifier: Apache-2.0
//
// Problems of `kiln bench unseen`: drawn from a seed, log-uniform in their sizes, a third of them unaligned. Equal seeds
// give equal problems on all machines.
#pragma once

#include <kiln/template.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::bench {

/// What a drawn problem is compared with.
enum class Peer {
    cublas_half,   ///< cublasLt: its first heuristic, and the best of 8
    cublas_float,  ///< the better of cublasSgemm and cublasLt's best
    attention,     ///< the better of cuDNN and FlashAttention
    flash,         ///< FlashAttention, which torch.nn.attention.varlen calls
    copy,          ///< bandwidth of a large copy
    torch,         ///< the better of eager and torch.compile
    memory         ///< the best of PyTorch, CUB and 0.95 of a copy of the same size
};

/// What the geometric mean and a low percentile of a family's ratios must reach, and aim at. Without limits: to be known.
struct DrawnAim {
    std::string_view with;  ///< BenchComparison::with
    std::optional<double> must = {}, aim = {};
    std::optional<double> low_must = {}, low_aim = {};
    int percent = 5;
};

/// How fast memory is at a problem's size: what the ratios to other libraries can't exceed by much.
inline constexpr DrawnAim kCopyOfAsManyBytes = {"copy of as many bytes"};

struct DrawnProblem {
    std::string text;  ///< of its row
    Values fixed;      ///< what is computed
    Sizes sizes;
    std::string torch;       ///< the line of PyTorch's script; empty: not in PyTorch
    bool unaligned = false;  ///< some row does not begin at a multiple of 16 bytes
};

/// One row of the table: problems that the same templates compute.
struct DrawnFamily {
    std::string_view part;  ///< of the suite
    std::vector<std::string_view>
        templates;  ///< in order; the first that is there stands for those that compute the same
    Peer peer;
    std::vector<DrawnAim> aims;
    bool in_flops = false;  ///< its rate is that of operations
    bool matrix = false;    ///< computes on tensor cores
};

/// Where the recorded measurements are drawn from.
inline constexpr std::uint64_t kRecordedSeeds[] = {1, 2, 3};

std::span<const DrawnFamily> drawn_families();

/// The first `count` problems of a family; a longer list begins with a shorter one. tiny: for the host, where the
/// suite is only tested. Throws UsageError for a family that there is not.
std::vector<DrawnProblem> drawn_problems(std::string_view part, std::uint64_t seed, int count, bool tiny);

}  // namespace kiln::bench
