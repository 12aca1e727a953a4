// SPDX-License-Identifier: Apache-2.0
//
// Other sizes for a launch, by steps of 128 or of the smallest larger power of two that the template accepts, so that a size
// keeps its remainder. No kernel of the launch is left out by them.
#pragma once

#include <kiln/template.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inspect/record_sizes.h"

namespace kiln {

/// The launch with each of these sizes about halved; nullopt where one is a single step, or the template accepts none.
std::optional<LaunchWork> with_lowered(const Variant& variant, const LaunchWork& now,
                                       const std::vector<std::string>& names);
/// With this size larger by one step.
std::optional<LaunchWork> with_raised(const Variant& variant, const LaunchWork& now, const std::string& name);
/// With this size larger, as large as steps reach without exceeding `most`.
std::optional<LaunchWork> with_raised_to(const Variant& variant, const LaunchWork& now,
                                         const std::string& name, std::int64_t most);

/// How many packed sequences have about the mean length that they have in `shape`.
std::ptrdiff_t kept_lengths(const LaunchWork& work, const LaunchWork& shape);
/// The launch with one size lowered, and with it those that packed sequences join: one after the other, as long as more of them
/// then are as long as in `shape`.
std::optional<LaunchWork> with_joined(const Variant& variant, const LaunchWork& now, const LaunchWork& shape,
                                      const std::string& first);

}  // namespace kiln
