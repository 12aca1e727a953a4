// SPDX-License-Identifier: Apache-2.0
//
// What a tuning run found, as text for people and as JSON for programs.
#pragma once

#include <kiln/tune.h>

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

    /// For every shape and template there is a best variant.
    bool found_all() const;
};

std::string to_text(const TuneSummary& summary);
Json to_json(const TuneSummary& summary);
/// An entry of wisdom.
Json to_json(const WisdomEntry& entry);
/// "m=4096 k=64"
std::string wisdom_sizes_text(const Sizes& sizes);

}  // namespace kiln::cli
