// SPDX-License-Identifier: Apache-2.0
//
// One variant on one target: what its fresh build and its cached one are, and do.
#pragma once

#include <kiln/run.h>
#include <kiln/tools/regress.h>

#include <future>
#include <memory>
#include <string>

#include "regress/ceiling.h"

namespace kiln {

class VariantRegression {
  public:
    /// cached: a service on the same cache directory that may not compile. All must outlive it.
    VariantRegression(Service& service, Service& cached, const RegressOptions& options);
    ~VariantRegression();

    /// Fills variant, failures, run and found. What goes wrong is a failure, not an exception.
    RegressResult run(const Variant& variant, std::future<Compiled> build);

  private:
    void examine(const Variant& variant, const Compiled& built, RegressResult& result);
    void launch(const Variant& variant, RegressResult& result);
    std::string compared(const AnyKernel& fresh, const AnyKernel& cached, Data data, RegressResult& result);
    void time(const AnyKernel& kernel, RegressResult& result);

    Service& service_;
    Service& cached_;
    const RegressOptions& options_;
    std::unique_ptr<Runner> runner_, cached_runner_;  ///< without a device: empty
    std::unique_ptr<Ceiling> ceiling_;                ///< made when first needed
};

/// The digest of a key's text without its compiler. Throws UsageError when the text is no key.
std::string ingredients_digest(const BuildKey& key);

}  // namespace kiln
