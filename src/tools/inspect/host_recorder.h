// SPDX-License-Identifier: Apache-2.0
//
// Records variants on the host: by a separate Service with the same template directories and cache, and a
// Runner that launches once without checks.
#pragma once

#include <kiln/run.h>
#include <kiln/service.h>
#include <kiln/tools/accesses.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
    /// One launch, of all kernels. One thread at a time. Throws what Runner::run throws.
    Recording record(const AnyKernel& kernel, const Sizes& sizes, const RecorderOptions& options);
    /// The same on other conditions: with threads in another order (OtherThreadOrder), and skew as RunOptions::skew. Ends where
    /// the kernel then waits for a thread or block that does not run. found: what is known of the kernel already, for the
    /// message where the launch fails.
    Recording record_again(const AnyKernel& kernel, const Sizes& sizes, const RecorderOptions& options,
                           int skew, std::vector<std::string> found);
    /// The same of each kernel that is launched, those with an empty grid left out; there are options for each.
    std::vector<Recording> record_kernels(const AnyKernel& kernel, const Sizes& sizes,
                                          const std::vector<RecorderOptions>& options);

  private:
    class Relay;
    using Tell = std::function<void(std::string_view)>;

    struct Recorded {
        std::vector<Recording> recordings;  // of each kernel
        bool waits = false;                 // a block waits for one that was not run; they end there
    };

    Recorded recorded(const AnyKernel& kernel, RunOptions run, const std::vector<RecorderOptions>& options,
                      const Tell& tell);
    std::vector<Recording> apart(const AnyKernel& kernel, std::vector<std::string> found,
                                 const std::function<std::vector<Recording>(const Tell&)>& work);

    std::shared_ptr<Relay> relay_;
    std::unique_ptr<Service> service_;
    std::unique_ptr<Runner> runner_;
};

/// Adds the problems of `more` that `known` does not have. In another order of threads a race may be found from its other side,
/// or with a third access.
void add_new_problems(const Recording& more, Recording& known);

}  // namespace kiln
