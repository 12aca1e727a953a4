// SPDX-License-Identifier: Apache-2.0
//
// Options whose relative paths stay those of the working directory at the start, wherever the process goes.
#pragma once

#include <kiln/service.h>

#include <filesystem>

namespace kiln {

/// Unchanged where it is empty, and where there is no working directory.
std::filesystem::path absolute_path(const std::filesystem::path& path);

/// All paths of the options: what a service opens again, in a child of fork() or for another device, is what it opened first.
ServiceOptions with_absolute_paths(ServiceOptions options);

}  // namespace kiln
