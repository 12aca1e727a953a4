// SPDX-License-Identifier: Apache-2.0
//
// The results of kiln profile, as text for people and as JSON for programs.
#pragma once

#include <kiln/timing.h>
#include <kiln/tools/profile.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/json.h"
#include "cli/terminal.h"

namespace kiln::cli {

struct ProfileReport {
    std::string template_name;
    Values values;
    Backend backend = Backend::cuda;
    std::string device;  ///< empty: there is none
    Analysis analysis;
    std::optional<ProfileTool> tool;  ///< not set: the page was read from a file
    std::string tool_version;
    std::string source;  ///< the profiler's program, or the file
    Measured measured;
    std::vector<std::string> notes;
    std::optional<TimeSummary> time;
    std::string naive;  ///< the naive variant that was timed as well; empty: none
    std::optional<TimeSummary> naive_time;

    std::optional<double> times_naive() const;
    std::vector<ComparedFigure> figures() const;
    std::vector<ThresholdCheck> thresholds() const;
    /// No threshold is missed.
    bool pass() const;
};

std::string to_text(const ProfileReport& report, const Terminal& terminal);
Json to_json(const ProfileReport& report);

}  // namespace kiln::cli
