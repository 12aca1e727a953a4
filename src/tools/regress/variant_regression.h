// SPDX-License-Identifier: Apache-2.0
//
// Examines and runs one variant on one target: its fresh build and the cached one.
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

    /// Sets variant, failures, run and found. Errors become failures, not exceptions.
    RegressResult run(const Variant& variant, std::future<Compiled> build);
    /// Sets variant, failures, and in found the ingredients only.
    RegressResult look_up(const Variant& variant) const;

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
