// SPDX-License-Identifier: Apache-2.0
//
// Lowers sizes one at a time, always the one that helps most.
#include "inspect/record_sizes.h"

#include <algorithm>
#include <vector>

#include "inspect/launch_extent.h"
#include "inspect/size_steps.h"

namespace kiln {
namespace {

constexpr double kClearlyMore = 1.02;

/// The launch with one size lowered and the least `cost`; nullopt: none is below `now`.
template <class Cost>
std::optional<LaunchWork> lowest(const Variant& variant, const LaunchWork& now, const Cost& cost) {
    std::optional<LaunchWork> best;
    for (const auto& [name, size] : now.sizes) {
        auto next = with_lowered(variant, now, {name});
        if (next && cost(*next) < cost(best ? *best : now)) best = std::move(next);
    }
    return best;
}

/// The launch with the least `cost` that lowering one size gives, with what packed sequences join to it. Sequences stay as long
/// where that is possible.
template <class Cost>
std::optional<LaunchWork> smallest(const Variant& variant, const LaunchWork& now, const LaunchWork& shape,
                                   const Cost& cost) {
    std::optional<LaunchWork> best;
    for (const auto& [name, size] : now.sizes) {
        auto next = with_joined(variant, now, shape, name);
        if (!next || cost(*next) >= cost(now)) continue;
        const auto kept = kept_lengths(*next, shape), before = best ? kept_lengths(*best, shape) : -1;
        if (kept > before || (kept == before && cost(*next) < cost(*best))) best = std::move(next);
    }
    return best;
}

/// The launch with one size raised and the least additional work per block; nullopt: none has more.
std::optional<LaunchWork> next_higher(const Variant& variant, const LaunchWork& now) {
    std::optional<LaunchWork> best;
    for (const auto& [name, size] : now.sizes) {
        auto next = with_raised(variant, now, name);
        // Other blocks at the edge of the grid change the mean slightly, but not the loop in each block.
        const bool deeper = next && next->block_work > kClearlyMore * now.block_work;
        if (deeper && (!best || next->block_work < best->block_work)) best = std::move(next);
    }
    return best;
}

double accesses_of(const LaunchWork& work) { return work.block_accesses; }

}  // namespace

LaunchWork LaunchWork::of_kernel(std::size_t kernel) const {
    LaunchWork work = *this;
    work.blocks = kernel_blocks.at(kernel);
    const double blocks_per_block = static_cast<double>(blocks) / static_cast<double>(work.blocks);
    if (kernel_work.empty())
        work.block_work *= blocks_per_block;
    else
        work.block_work = kernel_work.at(kernel);
    work.block_accesses *= blocks_per_block;
    return work;
}

LaunchWork launch_work(const Variant& variant, const Sizes& sizes) {
    const Problem problem = variant.problem(sizes);
    LaunchWork work;
    work.sizes = problem.sizes;
    for (const Dim3 grid : grids_of(variant, problem)) work.kernel_blocks.push_back(grid.count());
    work.blocks = work.kernel_blocks.front();
    for (const Tensor& tensor : problem.tensors) {
        work.tensor_bytes += static_cast<double>(tensor.size_bytes());
        if (tensor.fill == Fill::offsets)
            work.mean_lengths.push_back(static_cast<double>(tensor.high) /
                                        static_cast<double>(std::max<std::int64_t>(1, tensor.count() - 1)));
    }
    const double blocks = static_cast<double>(work.blocks);
    work.block_work = static_cast<double>(problem.flops) / blocks;
    work.block_accesses = work.block_work + static_cast<double>(problem.bytes) / blocks / 2;
    return work;
}

RecordSizes record_sizes(const Variant& variant, const LaunchWork& shape, const RecordBudget& budget) {
    RecordSizes result{launch_work(variant, shape.sizes), std::nullopt, shape};
    LaunchWork& at = result.at;
    while (at.block_accesses > budget.accesses) {
        auto next = lowest(variant, at, accesses_of);
        if (!next) break;
        at = std::move(*next);
    }
    while (at.tensor_bytes > budget.bytes) {
        // The data that all blocks read is shared by fewer blocks.
        const double most_accesses = 1.25 * std::max(budget.accesses, at.block_accesses);
        auto next = smallest(variant, at, shape, [&](const LaunchWork& work) {
            return work.block_accesses > most_accesses ? at.tensor_bytes : work.tensor_bytes;
        });
        if (!next) break;
        at = std::move(*next);
    }
    const auto differ = [](double one, double other) {
        return one > kClearlyMore * other || other > kClearlyMore * one;
    };
    if (!differ(at.block_work, shape.block_work)) return result;
    result.less = lowest(variant, at, [](const LaunchWork& work) { return work.block_work; });
    if (result.less && differ(result.less->block_work, at.block_work)) return result;
    result.less = std::nullopt;
    if (auto more = next_higher(variant, at)) {
        result.less = std::move(at);
        at = std::move(*more);
    }
    return result;
}

double Scaling::whole_grid(double at, double less) const {
    const double blocks = static_cast<double>(shape_.blocks);
    if (less_ >= at_) return at_ == 0 ? at * blocks : at * blocks * (shape_.block_work / at_);
    const double slope = std::max(0.0, at - less) / (at_ - less_);
    return std::max(0.0, at + slope * (shape_.block_work - at_)) * blocks;
}

}  // namespace kiln
