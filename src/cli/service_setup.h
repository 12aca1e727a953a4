// SPDX-License-Identifier: Apache-2.0
//
// Creates a Service from options: its options, its warnings, and why it uses the host.
#pragma once

#include <kiln/service.h>

#include <functional>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "cli/common_options.h"
#include "cli/terminal.h"

namespace kiln::cli {

/// A service's warnings. They are held until its construction has succeeded, since the cause of a failure is
/// reported as an error and should not be printed twice. Several services may share one object; no line is
/// printed twice.
class Warnings {
  public:
    explicit Warnings(const Terminal& terminal) : terminal_(terminal) {}

    void add(std::string_view line);
    void release();

  private:
    const Terminal& terminal_;
    std::mutex mutex_;
    bool released_ = false;
    std::vector<std::string> held_;
    std::set<std::string, std::less<>> told_;
};

/// warnings must outlive the service.
ServiceOptions service_options(const CommonOptions& options, Warnings& warnings, std::stop_token stop);

/// Throws CacheError when --cache-dir names a directory that can't be used: a directory that is requested by
/// name must work.
void check_cache_directory(const Service& service, const CommonOptions& options);

/// Without --backend host: a line on why the host is used.
void say_why_host(const Service& service, const CommonOptions& options, const Terminal& terminal);

}  // namespace kiln::cli
