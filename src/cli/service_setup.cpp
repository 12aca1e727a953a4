// SPDX-License-Identifier: Apache-2.0
//
// Creates a Service and prints its warnings.
#include "cli/service_setup.h"

#include <kiln/device.h>
#include <kiln/error.h>

#include <algorithm>

namespace kiln::cli {

void Warnings::add(std::string_view line) {
    const std::lock_guard lock(mutex_);
    if (!told_.emplace(line).second) return;
    if (released_)
        terminal_.note(line);
    else
        held_.emplace_back(line);
}

void Warnings::release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    for (const std::string& line : held_) terminal_.note(line);
    held_.clear();
}

ServiceOptions service_options(const CommonOptions& options, Warnings& warnings, std::stop_token stop) {
    ServiceOptions result;
    result.backend = options.backend;
    result.device = options.device;
    result.arch = options.arch;
    result.template_directories = options.template_directories;
    result.include_directories = options.include_directories;
    result.compile_options = options.compile_options;
    result.debug = options.debug;
    result.templates = options.templates;
    result.cache.directory = options.cache_directory;
    result.cache.enabled = options.use_cache;
    result.isolate_host = true;
    if (options.time_limit_seconds)
        result.host_time_limit = std::chrono::seconds(*options.time_limit_seconds);
    result.stop = std::move(stop);
    result.on_warning = [&warnings](std::string_view line) { warnings.add(line); };
    return result;
}

void check_cache_directory(const Service& service, const CommonOptions& options) {
    if (options.cache_directory && !service.cache_problem().empty())
        throw CacheError("--cache-dir " + options.cache_directory->string() + ": " + service.cache_problem());
}

void say_why_host(const Service& service, const CommonOptions& options, const Terminal& terminal) {
    if (options.backend || !options.arch.empty() || service.backend() != Backend::host) return;
    std::string cuda, hip;
    Device::list(Backend::cuda, &cuda);
    Device::list(Backend::hip, &hip);
    std::string line = "no GPU (cuda: " + cuda + "; hip: " + hip + "); " +
                       (service.has_device() ? "running" : "compiling") + " on the host";
    std::replace(line.begin(), line.end(), '\n', ' ');
    terminal.note(line);
}

}  // namespace kiln::cli
