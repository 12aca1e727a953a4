// SPDX-License-Identifier: Apache-2.0
//
// Builder: Variant -> Binary through the tiers of the cache, and Variant -> LoadedKernel through memory, each
// key once at a time among threads, processes and machines.
#pragma once

#include <kiln/build.h>
#include <kiln/service.h>
#include <kiln/template.h>

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <unordered_map>

#include "cache/flight.h"
#include "compile/include_tree.h"
#include "service/backends.h"
#include "service/kernel_table.h"
#include "service/loaded_kernel.h"
#include "service/observer.h"
#include "service/tiers.h"

namespace kiln {

struct BuilderOptions {
    bool caching = true;  ///< false: the user switched the cache off
    bool cached_only = false;
    bool validates = false;  ///< what it loads: ServiceOptions::validate
    std::chrono::milliseconds wait_limit{120000};
    std::stop_token stop;
};

/// Thread-safe.
class Builder {
  public:
    Builder(Selection selection, IncludeTree includes, CacheSetup cache, BuilderOptions options,
            Observer& observer);

    struct Found {
        std::shared_ptr<const LoadedKernel> kernel;
        Origin origin = Origin::memory;
    };
    /// Hot path: one hash look-up, without a lock, when the kernel is loaded already.
    Found kernel(const Variant& variant, Isolation isolation);
    Compiled binary(const Variant& variant, Isolation isolation);

    BuildKey key(const Source& build_source) const;
    /// Of what its tiers have and lack.
    Explanation explain(const Variant& variant) const;
    /// For a compiler: with all headers.
    Source complete(const Source& build_source) const { return includes_.with_headers(build_source); }
    /// Without the headers of include directories, but with their digest.
    Source source(const Variant& variant) const;
    /// The variant held to this builder's target; the same when it was validated against it already. Throws
    /// VariantError; UsageError for tensor maps on HIP.
    Variant validated(const Variant& variant) const;

    const Selection& selection() const { return selection_; }
    Tiers& tiers() { return tiers_; }
    const Tiers& tiers() const { return tiers_; }
    bool compiles() const { return !options_.cached_only; }
    bool caching() const { return options_.caching; }

  private:
    struct VariantHash {
        std::size_t operator()(const Variant& variant) const { return variant.hash(); }
    };
    using KernelPointer = KernelTable::Pointer;
    /// What a binary is looked for by.
    struct Keys {
        BuildKey key;  ///< the exact one; without a compiler the open one, under which nothing is stored
        CompilerIngredients compiler;
        std::optional<OpenLookup> open;  ///< where other compilers' entries may serve
        std::exception_ptr no_compiler;  ///< why there is none

        bool has_compiler() const { return no_compiler == nullptr; }
    };
    /// Everything that finding or compiling one binary needs.
    struct Request {
        const Keys& keys;
        const BuildKey& key;  ///< keys.key
        const Source& source;
        const std::string& variant;
        Isolation isolation;
        const Bytes* refused;  ///< by the driver; nullptr: nothing was

        Tiers::Wanted wanted(bool again = false) const {
            return {key, variant, refused, again, keys.open ? &*keys.open : nullptr, keys.has_compiler()};
        }
    };
    using Built = Tiers::Hit;

    Keys keys(const Source& build_source) const;

    Found load_new(const Variant& variant, Isolation isolation);
    Built find_or_compile(const Request& request);
    Built compile_for_all(const Request& request);
    std::optional<Built> from_other_machine(const Request& request, RemoteCache& remote,
                                            std::unique_ptr<RemoteCache::Lease>& lease);
    void note_wait(const Request& request, double waited_ms, bool took_over);
    Binary compile(const Request& request);
    /// PTX of this or an older architecture, for who compiles nothing: the driver compiles it.
    std::optional<Built> find_ptx(const Request& request);

    const Selection selection_;
    const IncludeTree includes_;
    const BuilderOptions options_;
    Observer& observer_;
    Tiers tiers_;

    KernelTable kernels_;

    std::mutex in_flight_mutex_;
    std::unordered_map<Variant, std::shared_future<KernelPointer>, VariantHash> in_flight_;
    std::unordered_map<std::string, std::shared_future<Built>> finding_;     ///< by key digest
    std::unordered_map<std::string, std::shared_future<Built>> rebuilding_;  ///< of what the driver rejected
};

}  // namespace kiln
