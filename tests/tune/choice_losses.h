// SPDX-License-Identifier: Apache-2.0
//
// What choosing by the model costs, among variants whose times were recorded in tests/tune/data.
#pragma once

#include <kiln/calibration.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "recorded_times.h"
#include "tune/model.h"
#include "tune_support.h"

namespace kiln::test {

/// "m=1 n=2" as pairs.
inline std::vector<std::pair<std::string, std::string>> assignments(const std::string& text) {
    std::vector<std::pair<std::string, std::string>> list;
    std::istringstream words(text);
    for (std::string word; words >> word;)
        if (const std::size_t equals = word.find('='); equals != std::string::npos)
            list.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    return list;
}

inline Sizes sizes_of(const std::string& text) {
    Sizes sizes;
    for (const auto& [name, value] : assignments(text)) sizes.emplace(name, std::stoll(value));
    return sizes;
}

/// For each problem of a file, sorted: the time of the variant that the model of a device puts first, over the best.
inline std::vector<double> losses_of_choosing(const std::string& file,
                                              const std::string& device = "NVIDIA H200",
                                              const Calibration& calibration = Calibration()) {
    const Machine machine(hopper().target(), device);
    const Model model(machine);
    struct Best {
        double estimate = INFINITY, chosen = 0, us = INFINITY;
    };
    std::map<std::string, Best> problems;
    std::map<std::string, Template> templates;
    for (const auto& [fixed, sizes, text, time] : recorded_times(file)) {
        const std::string name = text.substr(0, text.find(' '));
        const Template& of =
            templates.try_emplace(name, hopper().find(name).for_target(machine.target)).first->second;
        Values values;
        for (const auto& [parameter, value] : assignments(text))
            if (const Parameter* const found = of.parameter(parameter))
                values.emplace(parameter, found->parse(value));
        const Variant variant = of.variant(values);
        Model::Features features{};
        const auto estimate = model.uncalibrated(variant, variant.problem(sizes_of(sizes)), features);
        if (!estimate) continue;
        const double ms = estimate->ms * Model::factor_of(calibration, estimate->kind, features);
        const double us = std::stod(time);
        Best& best = problems[fixed + " | " + sizes];
        best.us = std::min(best.us, us);
        if (ms >= best.estimate) continue;
        best.estimate = ms;
        best.chosen = us;
    }
    std::vector<double> losses;
    for (const auto& [problem, best] : problems) losses.push_back(best.chosen / best.us);
    std::ranges::sort(losses);
    return losses;
}

inline double geometric_mean(const std::vector<double>& losses) {
    double sum = 0;
    for (const double loss : losses) sum += std::log(loss);
    return std::exp(sum / static_cast<double>(losses.size()));
}

}  // namespace kiln::test
