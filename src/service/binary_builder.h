// SPDX-License-Identifier: Apache-2.0
//
// BinaryBuilder: Source -> Binary through the tiers of the cache or the compiler, each key once at a time among threads,
// processes and machines. It knows no device: services of several devices of one process share one.
#pragma once

#include <kiln/build.h>
#include <kiln/service.h>

#include <atomic>
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
#include "compile/compiler.h"
#include "compile/include_tree.h"
#include "service/service_events.h"
#include "service/single_flight.h"
#include "service/tiers.h"

namespace kiln {

struct BuilderOptions {
    bool caching = true;  ///< false: the user switched the cache off
    bool cached_only = false;
    std::chrono::milliseconds wait_limit{120000};
    std::stop_token stop;
    std::vector<std::string> compile_options;  ///< for all templates, after their own
    bool debug = false;                        ///< templates have their real paths
};

/// Thread-safe.
class BinaryBuilder {
  public:
    /// includes: of this compiler.
    BinaryBuilder(std::unique_ptr<Compiler> compiler, IncludeTree includes, CacheSetup cache,
                  BuilderOptions options, ServiceEvents& events);

    /// What a binary is looked for by.
    struct Keys {
        BuildKey key;  ///< the exact one; without a compiler the open one, under which nothing is stored
        CompilerIngredients compiler;
        std::optional<OpenLookup> open;  ///< where other compilers' entries may serve
        std::exception_ptr no_compiler;  ///< why there is none

        bool has_compiler() const { return no_compiler == nullptr; }
    };
    Keys keys(const Target& target, const Source& build_source) const;

    /// Everything that finding or compiling one binary needs.
    struct Request {
        const Target& target;
        const Keys& keys;
        const BuildKey& key;  ///< keys.key
        const Source& source;
        const std::string& variant;
        Isolation isolation;
        const Bytes* refused;  ///< by the driver; nullptr: nothing was
        std::stop_token stop;  ///< of who asks; the work goes on while others want it

        Tiers::Wanted wanted(bool again = false) const {
            return {key, variant, refused, again, keys.open ? &*keys.open : nullptr, keys.has_compiler()};
        }
    };
    using Built = Tiers::Hit;
    /// Throws BuildError, also for a stop.
    Built find_or_compile(const Request& request);

    /// From now on, several services use it: what is stored in no tier stays in memory for the others.
    void share() { is_shared_ = true; }

    Compiler& compiler() const { return *compiler_; }
    const IncludeTree& includes() const { return includes_; }
    Tiers& tiers() { return tiers_; }
    const Tiers& tiers() const { return tiers_; }
    const BuilderOptions& options() const { return options_; }
    bool compiles() const { return !options_.cached_only; }

  private:
    bool compiles(const Request& request) const {
        return !options_.cached_only && request.keys.has_compiler();
    }
    /// The flight's: its token stops it.
    Built find_or_compile_now(const Request& request);
    std::optional<Built> find_unstored(const Request& request);
    void keep_unstored(const Request& request, const Built& built);
    Built compile_for_all(const Request& request);
    std::optional<Built> from_other_machine(const Request& request, RemoteCache& remote,
                                            std::unique_ptr<RemoteCache::Lease>& lease);
    void note_wait(const Request& request, double waited_ms, bool took_over);
    Binary compile(const Request& request);
    /// Of LTO-IR of callers and that of the source, which is found or compiled under a key of its own.
    Binary link(const Request& request);
    /// Of an architecture whose code serves as well (serving_archs), for who compiles nothing. `any` after `same`.
    std::optional<Built> find_for_other_arch(const Request& request, Includes includes);
    /// "; the packs have it for gfx90a and gfx942", where they have it for other architectures.
    std::string other_archs_text(const Request& request) const;
    /// The key of `request` for another architecture and any compiler.
    BuildKey open_key_for(const Request& request, const std::string& arch) const;

    const std::unique_ptr<Compiler> compiler_;
    const IncludeTree includes_;
    const BuilderOptions options_;
    ServiceEvents& events_;
    Tiers tiers_;
    std::atomic<bool> is_shared_{false};

    std::mutex mutex_;                                               ///< of all that follows
    std::unordered_map<std::string, SharedWork<Built>> finding_;     ///< by key digest
    std::unordered_map<std::string, SharedWork<Built>> rebuilding_;  ///< of what the driver rejected
    std::unordered_map<std::string, Built> unstored_;
};

}  // namespace kiln
