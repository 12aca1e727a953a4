// SPDX-License-Identifier: Apache-2.0
//
// The results of kiln run and jit-gemm, as text for people and as JSON for programs.
#pragma once

#include <kiln/run.h>
#include <kiln/wisdom.h>

#include <optional>
#include <string>

#include "cli/json.h"
#include "cli/terminal.h"

namespace kiln::cli {

struct RunReport {
    Variant variant;
    Backend backend = Backend::host;
    std::optional<std::string> device;  ///< not set: compiled only
    std::string arch;
    RunOptions options;
    RunResult result = {};
    std::optional<Variant> naive = {};  ///< with --compare
    std::optional<RunResult> naive_result = {};
    std::optional<Choice> choice = {};  ///< if the variant was chosen by wisdom or the model

    /// How many times as long the naive one takes; nullopt without both times.
    std::optional<double> speed_up() const;
};

/// "m=65 n=127", in the template's order; empty: it has none.
std::string sizes_text(const Template& of, const Sizes& sizes);
/// "m=65 n=127 (sizes that are not given are those of tests)"
std::string sizes_text(const Variant& variant, const Problem& problem, const RunOptions& options,
                       Backend backend);
/// "a half (65 x 67), c float (65 x 127)"
std::string tensors_text(const Problem& problem);

std::string to_text(const RunReport& report, const Terminal& terminal);
Json to_json(const RunReport& report);
/// Prints failures to standard error. Returns the exit status.
int told(const RunResult& result, const Terminal& terminal);

}  // namespace kiln::cli
