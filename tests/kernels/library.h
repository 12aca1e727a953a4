// SPDX-License-Identifier: Apache-2.0
//
// The template library on the host: what its tests share.
#pragma once

#include <gtest/gtest.h>
#include <kiln/kiln.h>
#include <kiln/run.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/host_arch.h"
#include "shared_cache.h"

namespace kiln::test {

/// A service for the host with the tests' cache. seed: of the order of a block's threads.
class HostLibrary {
  public:
    explicit HostLibrary(std::optional<unsigned> seed = std::nullopt) {
        if (seed)
            ::setenv("KILN_HOST_SEED", std::to_string(*seed).c_str(), 1);
        else
            ::unsetenv("KILN_HOST_SEED");
        ServiceOptions options;
        options.backend = Backend::host;
        options.arch = host_arch();
        options.cache.directory = shared_cache();
        service_.emplace(options);
        runner_.emplace(*service_);
    }

    Service& service() { return *service_; }
    Runner& runner() { return *runner_; }

  private:
    std::optional<Service> service_;
    std::optional<Runner> runner_;
};

/// Once, at the test sizes unless others are given, without timing.
inline RunOptions once(Sizes sizes = {}, Data data = Data::random, std::uint64_t seed = 1) {
    RunOptions options;
    options.sizes = std::move(sizes);
    options.test_sizes = true;
    options.data = data;
    options.seed = seed;
    options.time = false;
    options.check = Check::full;
    options.keep_results = true;
    return options;
}

inline std::string failures_text(const RunResult& result) {
    std::string text;
    for (const std::string& failure : result.failures()) text += failure + "\n";
    return text;
}

inline std::string sizes_text(const Problem& problem) {
    std::string text;
    for (const auto& [name, size] : problem.sizes) text += " " + name + "=" + std::to_string(size);
    return text;
}

/// The built-in templates that can be run on the host, references left out.
inline std::vector<std::string> runnable_templates() {
    ServiceOptions options;
    options.backend = Backend::host;
    options.compile_only = true;
    options.cache.enabled = false;
    const Service service(options);
    std::vector<std::string> names;
    for (const Template& one : service.templates()) {
        bool on_host = false;
        for (const Backend backend : one.backends()) on_host |= backend == Backend::host;
        if (on_host && one.is_runnable() && !one.is_reference()) names.push_back(one.name());
    }
    return names;
}

}  // namespace kiln::test
