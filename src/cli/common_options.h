// SPDX-License-Identifier: Apache-2.0
//
// The options of every program: the target, the cache and the template directories.
#pragma once

#include <kiln/template_set.h>
#include <kiln/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kiln::cli {

struct CommonOptions {
    std::optional<Backend> backend;  ///< not set: chosen when the devices are known
    int device = 0;
    std::string arch;
    std::optional<std::filesystem::path> cache_directory;
    bool use_cache = true;
    std::vector<std::filesystem::path> template_directories;
    std::vector<std::filesystem::path> include_directories;
    std::vector<std::string> compile_options;  ///< --option and --define
    bool debug = false;                        ///< real paths in binaries
    std::optional<TemplateSet> templates;      ///< those of the directories, if these have been read
    std::optional<int> time_limit_seconds;     ///< of a kernel on the host
};

}  // namespace kiln::cli
