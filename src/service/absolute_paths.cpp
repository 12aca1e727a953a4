// SPDX-License-Identifier: Apache-2.0
#include "service/absolute_paths.h"

#include <system_error>
#include <utility>
#include <vector>

namespace kiln {

std::filesystem::path absolute_path(const std::filesystem::path& path) {
    std::error_code error;
    std::filesystem::path absolute = std::filesystem::absolute(path, error);
    return path.empty() || error ? path : absolute;
}

ServiceOptions with_absolute_paths(ServiceOptions options) {
    CacheOptions& cache = options.cache;
    for (auto* const paths : {&options.template_directories, &options.include_directories, &cache.seed_packs})
        for (std::filesystem::path& path : *paths) path = absolute_path(path);
    options.record = absolute_path(options.record);
    if (cache.directory) cache.directory = absolute_path(*cache.directory);
    if (cache.remote)
        for (auto* const file :
             {&cache.remote->password_file, &cache.remote->ca_file, &cache.remote->signature_key_file})
            *file = absolute_path(*file);
    return options;
}

}  // namespace kiln
