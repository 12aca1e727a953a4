// SPDX-License-Identifier: Apache-2.0
//
// Tries steps from small to large until the template accepts the sizes.
#include "inspect/size_steps.h"

#include <kiln/error.h>

#include <algorithm>

namespace kiln {
namespace {

constexpr std::int64_t kSteps[] = {128, 256, 512, 1024, 2048, 4096};

/// `size` about halved and its remainder kept; nullopt when no full step is left.
std::optional<std::int64_t> lowered(std::int64_t size, std::int64_t step) {
    const std::int64_t steps = size / step;
    // One step stays, so that loops and grids still repeat.
    if (steps < 2) return std::nullopt;
    return size - steps / 2 * step;
}

/// Whether all kernels of one launch are launched by the other.
bool has_kernels_of(const LaunchWork& other, const LaunchWork& one) {
    return std::ranges::equal(
        other.kernel_blocks, one.kernel_blocks,
        [](std::uint64_t has, std::uint64_t wanted) { return has != 0 || wanted == 0; });
}

/// The launch with these sizes changed by the smallest step that the template accepts, and that leaves out no kernel.
template <class Change>
std::optional<LaunchWork> with_changed(const Variant& variant, const LaunchWork& now,
                                       const std::vector<std::string>& names, const Change& change) {
    for (const std::int64_t step : kSteps) {
        Sizes changed = now.sizes;
        for (const std::string& name : names) {
            const auto size = change(now.sizes.at(name), step);
            if (!size) return std::nullopt;
            changed[name] = *size;
        }
        try {
            LaunchWork work = launch_work(variant, changed);
            if (has_kernels_of(work, now)) return work;
        } catch (const VariantError&) {
            // Not a required multiple, or sizes that depend on each other.
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<LaunchWork> with_lowered(const Variant& variant, const LaunchWork& now,
                                       const std::vector<std::string>& names) {
    return with_changed(variant, now, names, lowered);
}

std::optional<LaunchWork> with_raised(const Variant& variant, const LaunchWork& now,
                                      const std::string& name) {
    return with_changed(variant, now, {name},
                        [](std::int64_t size, std::int64_t step) { return std::optional(size + step); });
}

std::optional<LaunchWork> with_raised_to(const Variant& variant, const LaunchWork& now,
                                         const std::string& name, std::int64_t most) {
    return with_changed(variant, now, {name}, [most](std::int64_t size, std::int64_t step) {
        const std::int64_t steps = (most - size) / step;
        return steps < 1 ? std::nullopt : std::optional(size + steps * step);
    });
}

std::ptrdiff_t kept_lengths(const LaunchWork& work, const LaunchWork& shape) {
    constexpr double kAbout = 1.25;
    std::ptrdiff_t kept = 0;
    for (std::size_t i = 0; i < work.mean_lengths.size(); ++i) {
        const double a = work.mean_lengths[i], b = shape.mean_lengths[i];
        kept += a <= kAbout * b && b <= kAbout * a ? 1 : 0;
    }
    return kept;
}

std::optional<LaunchWork> with_joined(const Variant& variant, const LaunchWork& now, const LaunchWork& shape,
                                      const std::string& first) {
    std::vector<std::string> names = {first};
    std::optional<LaunchWork> best = with_lowered(variant, now, names);
    for (bool better = best.has_value(); better;) {
        better = false;
        std::string joined;
        for (const auto& [name, size] : now.sizes) {
            if (std::ranges::find(names, name) != names.end()) continue;
            names.push_back(name);
            auto next = with_lowered(variant, now, names);
            names.pop_back();
            if (!next || kept_lengths(*next, shape) <= kept_lengths(*best, shape)) continue;
            best = std::move(next);
            joined = name;
            better = true;
        }
        if (better) names.push_back(joined);
    }
    return best;
}

}  // namespace kiln
