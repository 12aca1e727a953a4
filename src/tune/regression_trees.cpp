// SPDX-License-Identifier: Apache-2.0
#include "tune/regression_trees.h"

#include <kiln/error.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "format/format.h"

namespace kiln {
namespace {

constexpr std::size_t kMostBins = 64;
constexpr std::size_t kMostNodes = 4096;  // of a tree that is read

std::string number_text(float value) { return formatted("{:.4g}", static_cast<double>(value)); }

float number_of(std::string_view text) {
    float value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
        throw UsageError("'" + std::string(text) + "' is neither a number nor FEATURE<NUMBER");
    return value;
}

/// As it is read from text again, so that a fitted function and the one that is read from its text are the same.
float as_text(float value) { return number_of(number_text(value)); }

struct Sum {
    double values = 0, weights = 0;
    void operator+=(const Sum& other) { values += other.values, weights += other.weights; }
    Sum operator-(const Sum& other) const { return {values - other.values, weights - other.weights}; }
};

struct Split {
    double gain = 0;
    std::size_t feature = 0;
    std::size_t bin = 0;  ///< the last one of the first part
};

/// Samples whose features are replaced by the numbers of bins with about as many samples each.
class Binned {
  public:
    Binned(std::span<const float> features, std::size_t samples)
        : samples_(samples), count_(features.size() / samples), bins_(features.size()), edges_(count_) {
        std::vector<float> column(samples);
        for (std::size_t f = 0; f < count_; ++f) {
            for (std::size_t i = 0; i < samples; ++i) column[i] = features[i * count_ + f];
            std::vector<float> sorted = column;
            std::ranges::sort(sorted);
            std::vector<float>& edges = edges_[f];
            for (std::size_t bin = 1; bin < kMostBins; ++bin) {
                // Between two different values.
                const auto above = std::ranges::upper_bound(sorted, sorted[samples * bin / kMostBins]);
                if (above == sorted.end()) break;
                const float edge = as_text((*(above - 1) + *above) / 2);
                if (edge >= *(above - 1) && edge < *above && (edges.empty() || edge > edges.back()))
                    edges.push_back(edge);
            }
            for (std::size_t i = 0; i < samples; ++i)
                bins_[f * samples + i] =
                    static_cast<std::uint8_t>(std::ranges::lower_bound(edges, column[i]) - edges.begin());
        }
    }
    std::size_t features() const { return count_; }
    std::size_t bin(std::size_t feature, std::size_t sample) const {
        return bins_[feature * samples_ + sample];
    }
    const std::vector<float>& edges(std::size_t feature) const { return edges_[feature]; }

  private:
    std::size_t samples_, count_;
    std::vector<std::uint8_t> bins_;
    std::vector<std::vector<float>> edges_;
};

/// A tree while it grows.
struct Part {
    std::vector<std::uint32_t> samples;
    Sum sum;
    Split best;
    std::optional<std::pair<std::size_t, std::size_t>> below;  ///< parts; not set: a leaf
};

Split best_split(const Binned& binned, const Part& part, std::span<const float> rest,
                 std::span<const float> weights, const RegressionTrees::Options& options) {
    const auto score = [&](const Sum& sum) {
        return sum.values * sum.values / (sum.weights + options.ridge);
    };
    Split best;
    for (std::size_t f = 0; f < binned.features(); ++f) {
        const std::size_t edges = binned.edges(f).size();
        if (edges == 0) continue;
        Sum bins[kMostBins];
        for (const std::uint32_t i : part.samples) {
            Sum& bin = bins[binned.bin(f, i)];
            bin.values += static_cast<double>(rest[i]) * weights[i];
            bin.weights += weights[i];
        }
        Sum first;
        for (std::size_t bin = 0; bin < edges; ++bin) {
            first += bins[bin];
            const Sum second = part.sum - first;
            if (first.weights < options.least_weight || second.weights < options.least_weight) continue;
            const double gain = score(first) + score(second) - score(part.sum);
            if (gain > best.gain * (1 + 1e-9) + 1e-9) best = {gain, f, bin};
        }
    }
    return best;
}

}  // namespace

RegressionTrees RegressionTrees::fit(std::span<const float> features, std::span<const float> values,
                                     std::span<const float> weights, const Options& options) {
    RegressionTrees result;
    if (values.empty()) return result;
    const Binned binned(features, values.size());
    std::vector<float> rest(values.begin(), values.end());
    for (int tree = 0; tree < options.trees; ++tree) {
        std::vector<Part> parts(1);
        for (std::uint32_t i = 0; i < values.size(); ++i) {
            parts[0].samples.push_back(i);
            parts[0].sum += {static_cast<double>(rest[i]) * weights[i], weights[i]};
        }
        parts[0].best = best_split(binned, parts[0], rest, weights, options);
        for (int leaves = 1; leaves < options.leaves; ++leaves) {
            const auto part = std::ranges::max_element(
                parts, {}, [](const Part& one) { return one.below ? -1.0 : one.best.gain; });
            if (part->best.gain <= 0) break;
            Part low, high;
            for (const std::uint32_t i : part->samples) {
                Part& to = binned.bin(part->best.feature, i) <= part->best.bin ? low : high;
                to.samples.push_back(i);
                to.sum += {static_cast<double>(rest[i]) * weights[i], weights[i]};
            }
            part->below = {parts.size(), parts.size() + 1};
            part->samples.clear();
            for (Part* const one : {&low, &high})
                one->best = best_split(binned, *one, rest, weights, options);
            parts.push_back(std::move(low));
            parts.push_back(std::move(high));
        }
        if (parts.size() == 1) break;
        result.roots_.push_back(result.nodes_.size());
        const auto place = [&](const auto& self, const Part& part) -> void {
            const std::size_t at = result.nodes_.size();
            if (!part.below) {
                const auto value = as_text(
                    static_cast<float>(options.rate * part.sum.values / (part.sum.weights + options.ridge)));
                result.nodes_.push_back({-1, 0, value});
                for (const std::uint32_t i : part.samples) rest[i] -= value;
                return;
            }
            result.nodes_.push_back({static_cast<std::int32_t>(part.best.feature), 0,
                                     binned.edges(part.best.feature)[part.best.bin]});
            self(self, parts[part.below->first]);
            result.nodes_[at].other = static_cast<std::int32_t>(result.nodes_.size());
            self(self, parts[part.below->second]);
        };
        place(place, parts[0]);
    }
    return result;
}

double RegressionTrees::predict(std::span<const float> features) const {
    double sum = 0;
    for (std::size_t at : roots_) {
        while (nodes_[at].feature >= 0)
            at = features[static_cast<std::size_t>(nodes_[at].feature)] <= nodes_[at].value
                     ? at + 1
                     : static_cast<std::size_t>(nodes_[at].other);
        sum += nodes_[at].value;
    }
    return sum;
}

std::string RegressionTrees::text() const {
    std::string text;
    for (std::size_t at = 0, root = 0; at < nodes_.size(); ++at) {
        const bool is_root = root < roots_.size() && roots_[root] == at;
        root += is_root ? 1 : 0;
        text += is_root ? at == 0 ? "" : "\n" : " ";
        if (nodes_[at].feature >= 0) text += formatted("{}<", nodes_[at].feature);
        text += number_text(nodes_[at].value);
    }
    return text.empty() ? text : text + "\n";
}

void RegressionTrees::append(const RegressionTrees& trees) {
    const std::size_t before = nodes_.size();
    for (const std::size_t root : trees.roots_) roots_.push_back(before + root);
    for (Node node : trees.nodes_) {
        if (node.feature >= 0) node.other += static_cast<std::int32_t>(before);
        nodes_.push_back(node);
    }
}

void RegressionTrees::add(std::string_view line, std::size_t feature_count) {
    const std::size_t root = nodes_.size();
    std::vector<std::size_t> open;  // nodes whose second part is still to come
    bool is_whole = false;
    while (!line.empty()) {
        const std::size_t end = std::min(line.find(' '), line.size());
        const std::string_view word = line.substr(0, end);
        line.remove_prefix(std::min(end + 1, line.size()));
        if (word.empty()) continue;
        if (is_whole) throw UsageError("'" + std::string(word) + "' follows a tree that is complete");
        if (nodes_.size() - root >= kMostNodes)
            throw UsageError(formatted("a tree has more than {} nodes", kMostNodes));
        const std::size_t less = word.find('<');
        if (less != std::string_view::npos) {
            std::size_t feature = 0;
            const auto [stop, error] = std::from_chars(word.data(), word.data() + less, feature);
            if (error != std::errc() || stop != word.data() + less || feature >= feature_count)
                throw UsageError(
                    formatted("'{}' names no feature: they are 0 to {}", word, feature_count - 1));
            open.push_back(nodes_.size());
            nodes_.push_back({static_cast<std::int32_t>(feature), 0, number_of(word.substr(less + 1))});
            continue;
        }
        nodes_.push_back({-1, 0, number_of(word)});
        // The second part of the last split that lacks one comes next.
        while (!open.empty() && nodes_[open.back()].other != 0) open.pop_back();
        if (open.empty())
            is_whole = true;
        else
            nodes_[open.back()].other = static_cast<std::int32_t>(nodes_.size());
    }
    if (!is_whole) {
        nodes_.resize(root);
        throw UsageError("a tree ends before its last leaf");
    }
    roots_.push_back(root);
}

}  // namespace kiln
