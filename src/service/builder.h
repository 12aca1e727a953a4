// SPDX-License-Identifier: Apache-2.0
//
// Builder: Variant -> LoadedKernel on one device, through memory, a BinaryBuilder and the driver, each variant once at a
// time among threads.
#pragma once

#include <kiln/build.h>
#include <kiln/service.h>
#include <kiln/template.h>

#include <future>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "service/backends.h"
#include "service/binary_builder.h"
#include "service/kernel_table.h"
#include "service/loaded_kernel.h"
#include "service/service_events.h"

namespace kiln {

/// Thread-safe.
class Builder {
  public:
    /// validates: ServiceOptions::validate, of what it loads. ranges: of builds and launches; may be null. `binaries` and
    /// `events` must outlive it.
    Builder(Selection selection, BinaryBuilder& binaries, bool validates,
            std::shared_ptr<const ProfilerRanges> ranges, ServiceEvents& events);

    struct Found {
        std::shared_ptr<const LoadedKernel> kernel;
        Origin origin = Origin::memory;
    };
    /// Hot path: one hash look-up, without a lock, when the kernel is loaded already.
    /// stop: of this caller; what others want too goes on. Throws BuildError for it.
    Found kernel(const Variant& variant, Isolation isolation, const std::stop_token& stop = {});
    Compiled binary(const Variant& variant, Isolation isolation, const std::stop_token& stop = {});

    BuildKey key(const Source& build_source) const;
    /// Of what its tiers have and lack.
    Explanation explain(const Variant& variant) const;
    /// Without the headers of include directories, but with their digest.
    Source source(const Variant& variant) const;
    /// The variant held to this builder's target; the same when it was validated against it already. Throws
    /// VariantError; UsageError for tensor maps on HIP.
    Variant validated(const Variant& variant) const;

    const Selection& selection() const { return selection_; }
    const BinaryBuilder& binaries() const { return binaries_; }

  private:
    struct VariantHash {
        std::size_t operator()(const Variant& variant) const { return variant.hash(); }
    };
    using KernelPointer = KernelTable::Pointer;
    using Built = BinaryBuilder::Built;

    /// Throws BuildError, or warns, where the template's lines do not fit the binary.
    void check_limits(const Variant& variant, const Binary& binary) const;
    Found load_new(const Variant& variant, Isolation isolation, const std::stop_token& stop);

    const Selection selection_;
    BinaryBuilder& binaries_;
    const bool validates_;
    const std::shared_ptr<const ProfilerRanges> ranges_;
    ServiceEvents& events_;

    KernelTable kernels_;

    std::mutex in_flight_mutex_;
    std::unordered_map<Variant, SharedWork<KernelPointer>, VariantHash> in_flight_;
};

}  // namespace kiln
