// SPDX-License-Identifier: Apache-2.0
//
// What Kiln finds on this machine, what is missing, and what to do about it.
#pragma once

#include <kiln/service.h>
#include <kiln/version.h>

#include <string>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// How a finding is.
enum class FindingStatus {
    good,
    note,    ///< it works without, or with less
    problem  ///< what was asked for (a variable, an option) does not work
};
/// "good", "note" or "problem".
std::string_view name(FindingStatus status);

/// One thing that examine() looked at.
struct Finding {
    /// "environment", "compilers", "devices", "workers", "limits", "cache", "seed packs", "remote"
    std::string area;
    std::string subject;                         ///< "NVRTC", "KILN_CACHE_DIR"
    FindingStatus status = FindingStatus::good;  ///< good, or what is wrong
    std::string text;                            ///< what was found
    std::string remedy;                          ///< what to do; empty when nothing needs to be done
};

/// Looks at drivers, devices, compilers with versions and builds, the worker program, limits of the process,
/// directories of templates and their files, the cache directory with its permissions, seed packs, and the remote.
/// Throws nothing for what it finds.
std::vector<Finding> examine(const ServiceOptions& options = {});

}  // namespace KILN_ABI
}  // namespace kiln
