// SPDX-License-Identifier: Apache-2.0
//
// An analysis as text for people and as JSON for programs; and the default target.
#pragma once

#include <kiln/service.h>
#include <kiln/tools/analyze.h>

#include <string>

#include "cli/common_options.h"
#include "cli/json.h"
#include "cli/kiln_command.h"
#include "cli/terminal.h"

namespace kiln::cli {

/// For a terminal of that many columns; 0: lines of any length.
std::string to_text(const Analysis& analysis, const Variant& variant, const Target& target,
                    const Terminal& terminal);
Json to_json(const Analysis& analysis, const Variant& variant, const Target& target);

/// The options of --size, --test-sizes, --no-record and --chip. Throws UsageError.
AnalyzeOptions analyze_options(const Call& call);

/// Sets backend and architecture if `options` names neither and there is no GPU: the first of sm_90a and
/// gfx90a that the template runs on. The device is opened only if it is the target. Returns a message for the
/// user, or an empty one.
std::string choose_target(ServiceOptions& setup, const CommonOptions& options,
                          const std::string& template_name);

}  // namespace kiln::cli
