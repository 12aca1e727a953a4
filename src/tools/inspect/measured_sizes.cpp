// SPDX-License-Identifier: Apache-2.0
#include "inspect/measured_sizes.h"

#include <kiln/error.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "base/words.h"
#include "format/format.h"
#include "inspect/size_steps.h"
#include "inspect/text_format.h"

namespace kiln {
namespace {

/// Blocks that differ by less do the same.
constexpr double kClearly = 0.02;
/// How far a third measurement may be from the line through two others, as a fraction of its distance from them.
constexpr double kOffTheLine = 0.03;
/// How far the exponent by which blocks grow with a size may be from that at the shape.
constexpr double kOtherGrowth = 0.25;
/// A loop over a size is seen where its step is smaller.
constexpr std::int64_t kRaised = 1024;
/// Fewer blocks are mostly edges.
constexpr std::uint64_t kManyBlocks = 32;
/// Accesses are taken to have so many bytes.
constexpr double kBytesOfAccess = 4;
/// The budget may be exceeded by this factor where counts could not be scaled otherwise.
constexpr double kExceeded = 4;

bool same(double one, double other) { return std::abs(one - other) <= kClearly * std::max(one, other); }

/// Whether blocks do the same. Largest ones are the same where only edges differ, and means where the data differ.
bool same_blocks(const BlockBytes& one, const BlockBytes& other) {
    return same(one.most, other.most) || same(one.mean, other.mean);
}

/// Sizes that differ, by name.
std::vector<std::string> changed_sizes(const LaunchWork& one, const LaunchWork& other) {
    std::vector<std::string> names;
    for (const auto& [name, size] : one.sizes)
        if (other.sizes.at(name) != size) names.push_back(name);
    return names;
}

/// What raising a size does to the blocks of each kernel.
struct Growth {
    double from = 0, to = 0;  ///< values of the size
    bool is_none = false;
    std::vector<double> times = {};  ///< the largest block accesses more
    double factor(std::size_t kernel, std::int64_t size) const {
        const double steps = std::max(0.0, (static_cast<double>(size) - from) / (to - from)),
                     times_here = times[kernel];
        return times_here >= 1 ? 1 + (times_here - 1) * steps : 1 / (1 + (1 / times_here - 1) * steps);
    }
};

class Sizing {
  public:
    Sizing(const Variant& variant, const Sizes& shape, const MeasureBlocks& measure)
        : variant_(variant), measure_(measure), shape_(launch_work(variant, shape)) {}

    /// Measures at small sizes what each size does.
    void probe(const RecordBudget& budget) {
        small_ = shape_;
        for (const auto& [name, size] : shape_.sizes)
            while (auto next = with_lowered(variant_, small_, {name})) {
                if (!grows_as_shape(*next, name)) break;
                small_ = std::move(*next);
            }
        if (small_.sizes == shape_.sizes) return;
        try {
            measure_growth(budget);
        } catch (const Error&) {
            // The kernel does not run at small sizes, so that any size may matter.
            base_.clear();
            growth_.clear();
        }
    }

    /// The sizes of the shape, lowered until they meet the budget.
    LaunchWork within(const RecordBudget& budget) {
        LaunchWork at = shape_;
        bool only_bytes = false;
        for (;;) {
            const bool too_many = !only_bytes && accesses(at) > budget.accesses;
            if (!too_many && at.tensor_bytes <= budget.bytes) return at;
            const auto cost = [&](const LaunchWork& work) {
                return too_many ? accesses(work) : work.tensor_bytes;
            };
            std::optional<LaunchWork> best;
            std::pair<int, double> best_rank;
            for (const auto& [name, size] : at.sizes) {
                auto next = shape_.mean_lengths.empty() ? with_lowered(variant_, at, {name})
                                                        : with_joined(variant_, at, shape_, name);
                if (!next || cost(*next) >= cost(at)) continue;
                const std::pair rank(reluctance(at, *next), cost(*next));
                if (best && rank >= best_rank) continue;
                best_rank = rank;
                best = std::move(next);
            }
            const bool affordable =
                at.tensor_bytes <= kExceeded * budget.bytes && accesses(at) <= kExceeded * budget.accesses;
            if (best && !(best_rank.first >= kNotScalable && affordable)) {
                at = std::move(*best);
            } else if (too_many && at.tensor_bytes > budget.bytes) {
                only_bytes = true;
            } else {
                return at;
            }
        }
    }

    /// Which recordings at `at` give the counts of the shape.
    RecordSizes judged_if_it_runs(const LaunchWork& at) {
        try {
            return judged(at);
        } catch (const Error& error) {
            return not_scaled(
                at, formatted("at other sizes the kernel can't be run: {}", first_line(error.what())));
        }
    }

  private:
    static constexpr int kNotScalable = 3;

    void measure_growth(const RecordBudget& budget) {
        base_ = measured(small_);
        for (const std::string& name : changed_sizes(shape_, small_)) {
            const auto raised = raised_for_probe(name, std::max(budget.bytes / 3, 2 * small_.tensor_bytes));
            if (!raised) continue;
            Growth growth{static_cast<double>(small_.sizes.at(name)),
                          static_cast<double>(raised->sizes.at(name))};
            const std::vector<BlockBytes>& more = measured(*raised);
            growth.is_none = std::ranges::equal(base_, more, same_blocks);
            for (std::size_t i = 0; i < base_.size(); ++i)
                growth.times.push_back(std::max(more[i].most, 1.0) / std::max(base_[i].most, 1.0));
            growth_.emplace(name, std::move(growth));
        }
    }

    RecordSizes judged(LaunchWork at) {
        RecordSizes result{std::move(at), std::nullopt, shape_};
        const std::vector<std::string> names = changed_sizes(shape_, result.at);
        std::vector<std::string> depends_on;
        std::vector<LaunchWork> points;  // with other values of the last of these
        for (const std::string& name : names) {
            if (is_joined(result.at, name)) continue;
            if (!grows_as_shape(result.at, name))
                return not_scaled(std::move(result.at),
                                  formatted("the number of blocks follows {} in another way than at the "
                                            "recorded sizes",
                                            name));
            std::vector<LaunchWork> near = others(result.at, name);
            if (near.empty())
                return not_scaled(std::move(result.at),
                                  formatted("{} has no other value to compare with", name));
            if (std::ranges::equal(measured(result.at), measured(near.front()), same_blocks)) continue;
            depends_on.push_back(name);
            points = std::move(near);
        }
        for (LaunchWork* const work : {&result.at, &result.shape})
            work->kernel_work.assign(work->kernel_blocks.size(), 1);
        if (depends_on.empty()) return result;
        if (depends_on.size() > 1)
            return not_scaled(
                std::move(result.at),
                formatted("the accesses of a block depend on {} at the same time, and the shape is too large "
                          "to be recorded with less than both of them lowered",
                          enumerate(depends_on)));
        return along(std::move(result), depends_on.front(), std::move(points));
    }

    const std::vector<BlockBytes>& measured(const LaunchWork& work) {
        auto found = measured_.find(work.sizes);
        if (found == measured_.end()) found = measured_.emplace(work.sizes, measure_(work)).first;
        return found->second;
    }

    /// How little a step is wanted: 0 for one that changes the number of blocks only.
    int reluctance(const LaunchWork& now, const LaunchWork& next) {
        const std::vector<std::string> names = changed_sizes(now, next);
        if (!std::ranges::all_of(names, [&](const std::string& name) { return grows_as_shape(next, name); }))
            return kNotScalable + 1;
        const bool is_packed = names.size() > 1 && keeps_lengths(next);
        if (is_packed || !may_matter(names.front())) return next.blocks >= kManyBlocks ? 0 : 2;
        for (const std::string& lowered : changed_sizes(shape_, now))
            if (lowered != names.front() && may_matter(lowered) && !is_joined(now, lowered))
                return kNotScalable;
        return 1;
    }

    bool keeps_lengths(const LaunchWork& work) const {
        return !work.mean_lengths.empty() &&
               kept_lengths(work, shape_) == static_cast<std::ptrdiff_t>(work.mean_lengths.size());
    }
    /// Whether a size is lowered with others so that packed sequences stay as long.
    bool is_joined(const LaunchWork& at, const std::string& name) {
        if (!keeps_lengths(at)) return false;
        const auto next = with_lowered(variant_, shape_, {name});
        return next && !keeps_lengths(*next);
    }

    /// Whether a size may change what a block does.
    bool may_matter(const std::string& name) const {
        const auto found = growth_.find(name);
        return found == growth_.end() || !found->second.is_none;
    }

    double accesses(const LaunchWork& work) const {
        double most = 0;
        for (std::size_t i = 0; i < base_.size(); ++i) {
            double of_kernel = base_[i].most / kBytesOfAccess;
            for (const auto& [name, growth] : growth_) of_kernel *= growth.factor(i, work.sizes.at(name));
            most = std::max(most, of_kernel);
        }
        return most;
    }

    std::optional<LaunchWork> raised_for_probe(const std::string& name, double most_bytes) const {
        const std::int64_t from = small_.sizes.at(name);
        std::int64_t most = std::min(shape_.sizes.at(name), std::max(kRaised, 2 * from));
        std::optional<LaunchWork> raised;
        do {
            auto next = with_raised_to(variant_, small_, name, most);
            if (!next) break;
            raised = std::move(next);
            most = from + (most - from) / 2;
        } while (raised->tensor_bytes > most_bytes);
        return raised;
    }

    /// At most two launches with other values of this size, at which the blocks follow it as at the shape.
    std::vector<LaunchWork> others(const LaunchWork& at, const std::string& name) {
        std::vector<LaunchWork> found;
        while (found.size() < 2) {
            auto next = with_lowered(variant_, found.empty() ? at : found.back(), {name});
            if (!next || !grows_as_shape(*next, name)) break;
            found.push_back(std::move(*next));
        }
        for (std::int64_t most = at.sizes.at(name); found.size() < 2;) {
            auto next = with_raised_to(variant_, at, name, most *= 2);
            if (!next || !grows_as_shape(*next, name)) break;
            found.push_back(std::move(*next));
        }
        return found;
    }

    /// The exponents by which the blocks of each kernel grow with a size; empty: it has no other value.
    std::vector<double> block_growth(const LaunchWork& at, const std::string& name) const {
        auto near = with_lowered(variant_, at, {name});
        if (!near) near = with_raised(variant_, at, name);
        std::vector<double> exponents;
        if (!near) return exponents;
        const double size =
            std::log(static_cast<double>(at.sizes.at(name)) / static_cast<double>(near->sizes.at(name)));
        for (std::size_t i = 0; i < at.kernel_blocks.size(); ++i) {
            const auto blocks = static_cast<double>(at.kernel_blocks[i]),
                       others = static_cast<double>(near->kernel_blocks[i]);
            exponents.push_back(blocks == 0 || others == 0 ? 0 : std::log(blocks / others) / size);
        }
        return exponents;
    }
    bool grows_as_shape(const LaunchWork& at, const std::string& name) {
        const auto [found, is_new] = of_shape_.try_emplace(name);
        if (is_new) found->second = block_growth(shape_, name);
        return std::ranges::equal(found->second, block_growth(at, name), [](double one, double other) {
            return std::abs(one - other) <= kOtherGrowth;
        });
    }

    /// points: launches with other values of the size. With a second recording, where what a block does grows linearly with one size.
    RecordSizes along(RecordSizes result, const std::string& name, std::vector<LaunchWork> points) {
        const auto size = [&](const LaunchWork& work) { return static_cast<double>(work.sizes.at(name)); };
        LaunchWork near = std::move(points.front());
        points.erase(points.begin());
        const auto is_linear = [&](std::size_t kernel, double BlockBytes::*const bytes) {
            const double at = measured(result.at)[kernel].*bytes,
                         slope = (at - measured(near)[kernel].*bytes) / (size(result.at) - size(near));
            const double third = measured(points.front())[kernel].*bytes;
            return slope > 0 && std::abs(at + slope * (size(points.front()) - size(result.at)) - third) <=
                                    kOffTheLine * std::abs(third - at);
        };
        near.kernel_work.assign(near.kernel_blocks.size(), 1);
        for (std::size_t i = 0; i < near.kernel_blocks.size(); ++i) {
            if (same_blocks(measured(result.at)[i], measured(near)[i])) continue;
            if (points.empty() || !(is_linear(i, &BlockBytes::most) || is_linear(i, &BlockBytes::mean)))
                return not_scaled(
                    std::move(result.at),
                    formatted("the accesses of a block do not grow linearly with {}, which is lowered",
                              name));
            for (LaunchWork* const work : {&result.at, &near, &result.shape})
                work->kernel_work[i] = size(*work);
        }
        if (size(near) > size(result.at)) std::swap(near, result.at);
        result.less = std::move(near);
        return result;
    }

    const Variant& variant_;
    const MeasureBlocks& measure_;
    const LaunchWork shape_;
    LaunchWork small_;
    std::vector<BlockBytes> base_;                         // at small_, of each kernel
    std::map<std::string, Growth> growth_;                 // from small_, by size
    std::map<std::string, std::vector<double>> of_shape_;  // block_growth(), by size
    std::map<Sizes, std::vector<BlockBytes>> measured_;
};

}  // namespace

RecordSizes not_scaled(LaunchWork at, std::string why) {
    at.kernel_work.assign(at.kernel_blocks.size(), 1);
    return {at, std::nullopt, at, std::move(why)};
}

RecordSizes measured_sizes(const Variant& host_variant, const Sizes& shape, const RecordBudget& budget,
                           const MeasureBlocks& measure) {
    Sizing sizing(host_variant, shape, measure);
    sizing.probe(budget);
    return sizing.judged_if_it_runs(sizing.within(budget));
}

}  // namespace kiln
