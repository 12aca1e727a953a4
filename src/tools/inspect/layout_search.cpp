// SPDX-License-Identifier: Apache-2.0
//
// A recording shows whether a choice can be free of conflicts for some access width. Only then is it compiled
// for the target, which gives the width.
#include "inspect/layout_search.h"

#include <kiln/error.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <future>

#include "analysis/code_lines.h"
#include "inspect/launch_extent.h"
#include "inspect/recorded_variant.h"
#include "inspect/resource_needs.h"

namespace kiln {
namespace {

constexpr std::size_t kMostTries = 8;
constexpr std::size_t kTogether = 2;  // compiled at once
constexpr std::uint64_t kBlocks = 2;
constexpr double kFree = 0.001;  // an excess below this counts as none

/// As far as the template declares them; the rest is known from the binary only.
std::int64_t shared_bytes(const Variant& variant) {
    return static_cast<std::int64_t>(variant.static_shared_bytes() + variant.dynamic_shared_bytes());
}

bool has_word(const std::string& text, std::initializer_list<std::string_view> words) {
    std::string lower = text;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return std::ranges::any_of(words,
                               [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

bool is_named_for_layout(const Parameter& parameter) {
    return has_word(parameter.name, {"pad", "swizzle", "skew"}) ||
           has_word(parameter.text, {"swizzl", "padding", "extra element"});
}

std::vector<Value> values_of(const Parameter& parameter) {
    constexpr std::int64_t kMost = 64;
    if (!parameter.allowed.empty()) return parameter.allowed;
    std::vector<Value> values;
    if (parameter.kind == ParameterKind::integer)
        for (std::int64_t value = parameter.min; value <= std::min(parameter.max, parameter.min + kMost);
             ++value)
            values.emplace_back(static_cast<long long>(value));
    return values;
}

/// What must not change.
struct Launch {
    Dim3 grid, block, cluster;
    Problem problem;

    Launch(const Variant& variant, const Sizes& sizes)
        : block(variant.block()), cluster(variant.cluster()), problem(variant.problem(sizes)) {
        grid = grid_of(variant, problem);
    }
    bool operator==(const Launch& other) const {
        return grid == other.grid && block == other.block && cluster == other.cluster &&
               problem.flops == other.problem.flops && problem.bytes == other.problem.bytes &&
               std::ranges::equal(problem.tensors, other.problem.tensors,
                                  [](const Tensor& a, const Tensor& b) {
                                      return a.type == b.type && a.extents == b.extents;
                                  });
    }
};

/// The variant with these values, if it is legal and has the same launch.
std::optional<Variant> alike(const Template& of, const Values& values, const Sizes& sizes,
                             const Launch& launch) {
    try {
        std::optional<Variant> legal = of.first_variant(values);
        if (!legal || !(Launch(*legal, sizes) == launch)) return std::nullopt;
        return legal;
    } catch (const VariantError&) {
        return std::nullopt;  // it does not support these sizes
    }
}

class Choices {
  public:
    Choices(const Variant& variant, const Sizes& sizes)
        : variant_(variant), of_(variant.origin()), sizes_(sizes), launch_(variant, sizes) {
        for (const Parameter& parameter : of_.parameters())
            if (parameter.kind == ParameterKind::integer || parameter.kind == ParameterKind::boolean)
                add(parameter);
        std::ranges::stable_sort(found_, {}, &LayoutChoice::shared_bytes_more);
    }
    std::vector<LayoutChoice> take() { return std::move(found_); }

  private:
    void add(const Parameter& parameter) {
        std::vector<LayoutChoice> choices;
        for (const Value& value : values_of(parameter)) {
            if (value == variant_.value(parameter.name)) continue;
            std::string change = parameter.name + "=" + value.text();
            Values values = variant_.values();
            values.insert_or_assign(parameter.name, value);
            auto other = alike(of_, values, sizes_, launch_);
            if (!other && is_named_for_layout(parameter)) other = without_others(parameter, values, change);
            if (other) choices.push_back({*other, change, shared_bytes(*other) - shared_bytes(variant_)});
        }
        if (!is_named_for_layout(parameter) && !moves_little(choices)) return;
        for (LayoutChoice& choice : choices) found_.push_back(std::move(choice));
    }

    /// Two layout parameters may exclude each other; the others then have their first value.
    std::optional<Variant> without_others(const Parameter& parameter, Values values,
                                          std::string& change) const {
        for (const Parameter& other : of_.parameters()) {
            if (other.name == parameter.name || !is_named_for_layout(other)) continue;
            const std::vector<Value> all = values_of(other);
            if (all.empty()) continue;
            const Value off = other.kind == ParameterKind::boolean ? Value(false) : all.front();
            if (values.at(other.name) == off) continue;
            values.insert_or_assign(other.name, off);
            change += " " + other.name + "=" + off.text();
        }
        return alike(of_, values, sizes_, launch_);
    }

    bool moves_little(const std::vector<LayoutChoice>& choices) const {
        const std::int64_t quarter = shared_bytes(variant_) / 4;
        const auto moves = [](const LayoutChoice& choice) { return choice.shared_bytes_more != 0; };
        return std::ranges::any_of(choices, moves) &&
               std::ranges::all_of(choices, [&](const LayoutChoice& choice) {
                   return std::abs(choice.shared_bytes_more) <= quarter;
               });
    }

    const Variant& variant_;
    const Template of_;
    const Sizes& sizes_;
    const Launch launch_;
    std::vector<LayoutChoice> found_;
};

bool is_misaligned(const Recording& recording) {
    return std::ranges::any_of(recording.shared, [](const SharedSite& site) { return site.misaligned != 0; });
}

/// The total of all sites, each with its cheapest width.
double least_excess(const Recording& recording) {
    double wavefronts = 0, ideal = 0;
    for (const SharedSite& site : recording.shared) {
        WidthCost best = site.as_written;
        for (const WidthCost& width : site.widths)
            if (static_cast<double>(width.wavefronts) * static_cast<double>(best.ideal) <
                static_cast<double>(best.wavefronts) * static_cast<double>(width.ideal))
                best = width;
        wavefronts += static_cast<double>(best.wavefronts);
        ideal += static_cast<double>(best.ideal);
    }
    return ideal == 0 ? 0 : wavefronts / ideal - 1;
}

double excess_of(const std::vector<SharedLine>& lines) {
    double wavefronts = 0, ideal = 0;
    for (const SharedLine& line : lines) {
        wavefronts += static_cast<double>(line.believed.wavefronts);
        ideal += static_cast<double>(line.believed.ideal);
    }
    return ideal == 0 ? 0 : wavefronts / ideal - 1;
}

/// As compiled for the target. Throws BuildError.
LayoutFound compiled_choice(Service& target, const LayoutChoice& choice, const Recording& recording,
                            std::uint64_t shared_now) {
    const Binary binary = target.compile(choice.variant).binary;
    LayoutFound found{choice, excess_of(believed_lines(recording, compiled_accesses(binary))), {}};
    const Resources resources = resources_of(binary);
    found.occupancy = occupancy_of(choice.variant, resources, target.target());
    const std::uint64_t shared =
        resources.static_shared_bytes.value_or(choice.variant.static_shared_bytes()) +
        choice.variant.dynamic_shared_bytes();
    found.choice.shared_bytes_more = static_cast<std::int64_t>(shared - shared_now);
    return found;
}

}  // namespace

std::vector<LayoutChoice> layout_choices(const Variant& variant, const Sizes& sizes) {
    return Choices(variant, sizes).take();
}

LayoutSearch find_layout(Service& target, HostRecorder& recorder, const Variant& variant, const Sizes& shape,
                         const Sizes& sizes, std::uint64_t shared_now, const RecorderOptions& options) {
    RecorderOptions each = options;
    each.most_blocks = kBlocks;
    each.problems = false;
    std::vector<LayoutChoice> choices = layout_choices(variant, shape);
    if (choices.size() > kMostTries) choices.erase(choices.begin() + kMostTries, choices.end());

    LayoutSearch search;
    const auto try_one = [&](const LayoutChoice& choice, std::future<AnyKernel>& kernel) {
        search.tried.push_back(choice.change);
        const Recording recording = recorder.record(kernel.get(), sizes, each);
        if (is_misaligned(recording)) return;
        const double hope = least_excess(recording);
        if (search.best && hope >= search.best->excess) return;
        LayoutFound found = compiled_choice(target, choice, recording, shared_now);
        if (!search.best || found.excess < search.best->excess) search.best = std::move(found);
    };
    for (std::size_t first = 0; first < choices.size(); first += kTogether) {
        const std::size_t end = std::min(first + kTogether, choices.size());
        std::vector<std::future<AnyKernel>> kernels;
        for (std::size_t i = first; i < end; ++i)
            kernels.push_back(std::async(std::launch::async | std::launch::deferred, [&, i] {
                return recorder.build(recorder.on_host(choices[i].variant));
            }));
        for (std::size_t i = first; i < end; ++i) {
            try {
                try_one(choices[i], kernels[i - first]);
            } catch (const BuildError&) {
                // It is legal but can't be compiled, so it is not recommended.
            } catch (const VariantError&) {
                // The host does not allow it, or not at these sizes.
            }
            if (search.best && search.best->excess <= kFree) return search;
        }
    }
    return search;
}

}  // namespace kiln
