// SPDX-License-Identifier: Apache-2.0
//
// Lowers sizes one at a time, always the one that helps most.
#include "inspect/record_sizes.h"

#include <kiln/error.h>

#include <algorithm>
#include <vector>

#include "inspect/launch_extent.h"

namespace kiln {
namespace {

constexpr double kClearlyMore = 1.02;
constexpr std::int64_t kSteps[] = {128, 256, 512, 1024, 2048, 4096};

/// `size` about halved and its remainder kept; nullopt when no full step is left.
std::optional<std::int64_t> lowered(std::int64_t size, std::int64_t step) {
    const std::int64_t steps = size / step;
    // One step stays, so that loops and grids still repeat.
    if (steps < 2) return std::nullopt;
    return size - steps / 2 * step;
}

std::optional<std::int64_t> raised(std::int64_t size, std::int64_t step) { return size + step; }

/// The launch with these sizes changed by the smallest step that the template accepts.
template <class Change>
std::optional<LaunchWork> with_changed(const Variant& variant, const Sizes& sizes,
                                       const std::vector<std::string>& names, const Change& change) {
    for (const std::int64_t step : kSteps) {
        Sizes changed = sizes;
        for (const std::string& name : names) {
            const auto size = change(sizes.at(name), step);
            if (!size) return std::nullopt;
            changed[name] = *size;
        }
        try {
            return launch_work(variant, changed);
        } catch (const VariantError&) {
            // Not a required multiple, or sizes that depend on each other.
        }
    }
    return std::nullopt;
}

/// The launch with one size lowered and the least `cost`; nullopt: none is below `now`.
template <class Cost>
std::optional<LaunchWork> lowest(const Variant& variant, const LaunchWork& now, const Cost& cost) {
    std::optional<LaunchWork> best;
    for (const auto& [name, size] : now.sizes) {
        auto next = with_changed(variant, now.sizes, {name}, lowered);
        if (next && cost(*next) < cost(best ? *best : now)) best = std::move(next);
    }
    return best;
}

/// Whether packed sequences have about the same mean length.
bool are_as_long(const LaunchWork& one, const LaunchWork& other) {
    constexpr double kAbout = 1.25;
    return std::ranges::equal(one.mean_lengths, other.mean_lengths,
                              [](double a, double b) { return a <= kAbout * b && b <= kAbout * a; });
}

/// The launch with the least tensors that one size lowered gives, or two that packed sequences join.
template <class Cost>
std::optional<LaunchWork> smallest(const Variant& variant, const LaunchWork& now, const Cost& cost) {
    if (now.mean_lengths.empty()) return lowest(variant, now, cost);
    std::optional<LaunchWork> best;
    for (const auto& [name, size] : now.sizes)
        for (const auto& [other, other_size] : now.sizes) {
            if (other < name) continue;
            const std::vector<std::string> names = {name, other};  // often the same
            auto next = with_changed(variant, now.sizes, names, lowered);
            if (next && are_as_long(*next, now) && cost(*next) < cost(best ? *best : now))
                best = std::move(next);
        }
    return best ? best : lowest(variant, now, cost);
}

/// The launch with one size raised and the least additional work per block; nullopt: none has more.
std::optional<LaunchWork> next_higher(const Variant& variant, const LaunchWork& now) {
    std::optional<LaunchWork> best;
    for (const auto& [name, size] : now.sizes) {
        auto next = with_changed(variant, now.sizes, {name}, raised);
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
    work.block_work *= blocks_per_block;
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
    const double flops = static_cast<double>(problem.flops) / blocks;
    const double bytes = static_cast<double>(problem.bytes) / blocks;
    work.block_work = problem.flops > 0 ? flops : bytes;
    work.block_accesses = flops + bytes / 2;
    return work;
}

RecordSizes record_sizes(const Variant& variant, const LaunchWork& shape, const RecordBudget& budget) {
    RecordSizes result{launch_work(variant, shape.sizes), std::nullopt};
    LaunchWork& at = result.at;
    while (at.block_accesses > budget.accesses) {
        auto next = lowest(variant, at, accesses_of);
        if (!next) break;
        at = std::move(*next);
    }
    while (at.tensor_bytes > budget.bytes) {
        // The data that all blocks read is shared by fewer blocks.
        const double most_accesses = 1.25 * std::max(budget.accesses, at.block_accesses);
        auto next = smallest(variant, at, [&](const LaunchWork& work) {
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
