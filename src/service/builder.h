// SPDX-License-Identifier: Apache-2.0
//
// Builder: Variant -> Binary through the cache, and Variant -> LoadedKernel through memory, each key
// once at a time however many threads ask.
#pragma once

#include <kiln/build.h>
#include <kiln/service.h>
#include <kiln/template.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "cache/disk_cache.h"
#include "service/backends.h"
#include "service/loaded_kernel.h"

namespace kiln {

struct AtomicCounters {
    std::atomic<std::uint64_t> memory_hits{0}, disk_hits{0}, misses{0}, compiles{0}, build_failures{0},
        rejected_entries{0}, stored_entries{0};
};

/// Thread-safe.
class Builder {
  public:
    Builder(Selection selection, std::unique_ptr<DiskCache> disk, bool caching,
            std::function<void(std::string_view)> warn);

    struct Found {
        std::shared_ptr<const LoadedKernel> kernel;
        Origin origin = Origin::memory;
    };
    /// Hot path: one shared lock and one hash look-up when the kernel is loaded already.
    Found kernel(const Variant& variant);

    struct Built {
        Binary binary;
        Origin origin = Origin::compiled;
    };
    Built binary(const Variant& variant);

    BuildKey key(const Source& build_source) const;
    Source source(const Variant& variant) const;
    /// The variant held to this builder's target; the same when it was validated against it already.
    Variant validated(const Variant& variant) const;

    const Selection& selection() const { return selection_; }
    /// nullptr when the disk is not used.
    const DiskCache* disk() const { return disk_.get(); }
    /// False: neither read nor write the disk, because the user said so.
    bool caching() const { return caching_; }
    Counters counters() const;

  private:
    struct VariantHash {
        std::size_t operator()(const Variant& variant) const { return variant.hash(); }
    };
    using KernelPointer = std::shared_ptr<const LoadedKernel>;

    Found load_new(const Variant& variant);
    Binary compile(const Source& source);
    Built find_or_compile(const BuildKey& key, const Source& source, bool look_on_disk);
    void warn_of_disk();
    void warn_once(const std::string& text);

    Selection selection_;
    const std::unique_ptr<DiskCache> disk_;
    const bool caching_;
    const std::function<void(std::string_view)> warn_;
    mutable AtomicCounters counters_;

    mutable std::shared_mutex kernels_mutex_;
    std::unordered_map<Variant, KernelPointer, VariantHash> kernels_;

    std::mutex in_flight_mutex_;
    std::unordered_map<Variant, std::shared_future<KernelPointer>, VariantHash> in_flight_;
    std::unordered_map<std::string, std::shared_future<Built>> finding_;     ///< by key digest
    std::unordered_map<std::string, std::shared_future<Built>> rebuilding_;  ///< the same, past the disk

    std::mutex warned_mutex_;
    std::unordered_set<std::string> warned_;
};

}  // namespace kiln
