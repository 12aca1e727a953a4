// SPDX-License-Identifier: Apache-2.0
//
// Records variants on the host: by a separate Service with the same template directories and cache, and a
// Runner that launches once without checks.
#pragma once

#include <kiln/run.h>
#include <kiln/service.h>
#include <kiln/tools/accesses.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

class HostRecorder {
  public:
    /// target: for its options. Throws what Service's constructor throws.
    explicit HostRecorder(const Service& target);
    ~HostRecorder();
    HostRecorder(const HostRecorder&) = delete;
    HostRecorder& operator=(const HostRecorder&) = delete;

    /// The same variant for the host. Throws VariantError when its template excludes the host.
    Variant on_host(const Variant& variant) const;
    /// A host variant of the template's `naive`; nullopt: none is declared.
    std::optional<Variant> naive(const Variant& host_variant) const;
    /// Compiles it, or finds it in the cache. From any thread. Throws BuildError.
    AnyKernel build(const Variant& host_variant);
    /// One launch. skew: RunOptions::skew. found: what is known of the kernel already, for the message where the launch
    /// fails. One thread at a time. Throws what Runner::run throws.
    Recording record(const AnyKernel& kernel, const Sizes& sizes, const RecorderOptions& options,
                     int skew = 0, std::vector<std::string> found = {});

  private:
    class Relay;

    std::shared_ptr<Relay> relay_;
    std::unique_ptr<Service> service_;
    std::unique_ptr<Runner> runner_;
};

}  // namespace kiln
