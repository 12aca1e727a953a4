// SPDX-License-Identifier: Apache-2.0
//
// What a Calibration holds.
#pragma once

#include <kiln/calibration.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>

#include "base/digest.h"
#include "tune/model.h"
#include "tune/regression_trees.h"

namespace kiln {

/// By kind of kernel: the logarithm of measured over estimated time.
using CalibrationTrees = std::array<RegressionTrees, kKernelKinds>;

struct Calibration::Content {
    std::string device, arch, date;
    CalibrationTrees trees;
    std::set<std::string> fitted;  ///< problem_digest() of the problems whose times it was fitted to
};

inline std::string problem_digest(const std::string& problem) {
    constexpr std::size_t kDigits = 12;
    return digest_hex(problem).substr(0, kDigits);
}

/// Within limits. An estimate is hardly shortened, since of many variants the one is chosen whose estimate is too short
/// by most.
inline double calibrated_factor(const RegressionTrees& trees, const Model::Features& features) {
    constexpr double kLeast = 0.6, kMost = 4;
    return std::clamp(std::exp(trees.predict(features)), kLeast, kMost);
}

}  // namespace kiln
