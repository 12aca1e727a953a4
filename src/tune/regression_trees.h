// SPDX-License-Identifier: Apache-2.0
//
// RegressionTrees: a function of some numbers, fitted to samples by gradient boosting of small trees with a squared loss
// (Friedman, "Greedy function approximation: a gradient boosting machine", 2001). Splits are chosen from histograms,
// and a tree grows where that helps most. What it answers lies between what the samples had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

class RegressionTrees {
  public:
    struct Options {
        int trees = 100;
        int leaves = 10;           ///< of a tree, at most
        double rate = 0.1;         ///< of what a tree explains, the part that is taken
        double least_weight = 10;  ///< of the samples of a leaf
        double ridge = 5;          ///< added to the weight of a leaf: draws its value to 0
    };
    /// features: those of the first sample, then of the next, values.size() times as many as there are of one.
    /// The result does not depend on anything but the arguments.
    static RegressionTrees fit(std::span<const float> features, std::span<const float> values,
                               std::span<const float> weights, const Options& options);

    /// 0 without trees.
    double predict(std::span<const float> features) const;
    bool empty() const { return roots_.empty(); }

    /// A line for each tree: nodes from the root on, each before what is below it, first the part with smaller values.
    /// "3<1.5" splits by feature 3; a number is a leaf's value.
    std::string text() const;
    /// Adds the tree of a line. feature_count: that a split may name. Throws UsageError that says what is wrong.
    void add(std::string_view line, std::size_t feature_count);
    /// predict() is the sum of both.
    void append(const RegressionTrees& trees);

  private:
    struct Node {
        std::int32_t feature;  ///< -1: a leaf
        std::int32_t other;    ///< where the part with greater values begins
        float value;           ///< the greatest that belongs to the first part; of a leaf, what it adds
    };
    std::vector<Node> nodes_;
    std::vector<std::size_t> roots_;
};

}  // namespace kiln
