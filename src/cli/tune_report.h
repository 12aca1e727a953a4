// SPDX-License-Identifier: Apache-2.0
//
// The results of a tuning run, as text for people and as JSON for programs.
#pragma once

#include <kiln/tune.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/json.h"

namespace kiln::cli {

struct TuneSummary {
    std::filesystem::path file;
    std::string device, arch;
    std::vector<std::string> templates;
    double budget_seconds = 0;
    std::vector<TuneReport> reports;  ///< one per device

    /// Whether every shape has a best variant.
    bool found_all() const;
};

/// How long an interrupted tuning run may take to stop: a launch, a check, a reference.
constexpr std::chrono::seconds kTuningEnds{30};

std::string to_text(const TuneSummary& summary);
Json to_json(const TuneSummary& summary);
/// An entry of wisdom.
Json to_json(const WisdomEntry& entry);
/// Why there is no best variant: "5 variants were tried, and failed; the first, fill WAY=2: ..."
std::string nothing_text(const TunedShape& shape);
/// "m=4096 k=64"
std::string wisdom_sizes_text(const Sizes& sizes);

}  // namespace kiln::cli
