// SPDX-License-Identifier: Apache-2.0
//
// The tiers, then the compiler. A failure is remembered nowhere: whoever waited for it gets the exception, whoever
// comes later tries again.
#include "service/binary_builder.h"

#include <kiln/error.h>

#include <algorithm>
#include <condition_variable>
#include <system_error>
#include <utility>

#include "base/arch_facts.h"
#include "base/stopwatch.h"
#include "base/words.h"
#include "cache/build_key.h"
#include "compile/missing_header.h"
#include "device/driver.h"
#include "format/format.h"
#include "service/stored_variants.h"

namespace kiln {
namespace {

/// What make() returns, or its exception; either is counted and traced. A compile that was cancelled did not fail.
template <class Make>
Binary traced(ServiceEvents& events, const std::string& digest, const std::string& variant,
              const std::stop_token& stop, const Make& make) {
    const Stopwatch watch;
    try {
        Binary binary = make();
        events.trace({TraceKind::compile, Origin::compiled, digest, variant, watch.elapsed_ms(),
                      binary.bytes.size(), binary.compiler});
        return binary;
    } catch (const std::exception& error) {
        if (!stop.stop_requested()) events.count(&Counters::build_failures);
        events.trace(
            {TraceKind::failure, Origin::compiled, digest, variant, watch.elapsed_ms(), 0, error.what()});
        throw;
    }
}

/// Where nothing may be compiled, and where none of the headers is here, as on a machine that a pack was shipped to.
bool may_have_other_headers(const Source& source, bool cached_only) {
    return !source.open_includes.empty() && (cached_only || source.include_digest.empty());
}

}  // namespace

BinaryBuilder::BinaryBuilder(std::unique_ptr<Compiler> compiler, IncludeTree includes, CacheSetup cache,
                             BuilderOptions options, ServiceEvents& events)
    : compiler_(std::move(compiler)),
      includes_(std::move(includes)),
      options_(std::move(options)),
      events_(events),
      tiers_(std::move(cache), events) {}

BinaryBuilder::Keys BinaryBuilder::keys(const Target& target, const Source& build_source) const {
    auto& compiler = *compiler_;
    auto options = compiler.options(target, build_source);
    for (const LinkedCode& code : build_source.linked)
        options.push_back("link " + code.symbol + " " + code.digest);
    if (!build_source.linked.empty())
        for (const std::string& one : compiler.link_options(target, build_source))
            options.push_back("link " + one);
    Keys keys;
    std::string linker;
    if (options_.cached_only || tiers_.setup().named_seeds > 0)
        keys.open = OpenLookup{make_open_key(target, options, build_source), options_.cached_only,
                               may_have_other_headers(build_source, options_.cached_only)};
    try {
        keys.compiler = compiler.ingredients();
        if (!build_source.linked.empty()) linker = compiler.linker_identity();
    } catch (const BuildError&) {
        if (!keys.open) throw;
        keys.no_compiler = std::current_exception();
        keys.key = keys.open->key;
        return keys;
    }
    CompilerFields fields(keys.compiler.identity, {}, keys.compiler.options);
    for (const auto& [name, value] : keys.compiler.environment)
        fields.environment.push_back(name + "=" + value);
    if (!linker.empty()) fields.options.push_back("linker " + linker);
    keys.key = make_build_key(target, fields, options, build_source);
    return keys;
}

BinaryBuilder::Built BinaryBuilder::find_or_compile(const Request& request) {
    // Who was given a useless entry must not wait for one who is about to be given the same.
    auto& flights = request.refused == nullptr ? finding_ : rebuilding_;
    bool asked_tiers = false;
    Built built = single_flight(
        mutex_, flights, request.key.digest, request.stop, [&](const std::stop_token& stop) -> Built {
            asked_tiers = true;
            std::stop_source either;
            const auto end = [&] { either.request_stop(); };
            const std::stop_callback of_flight(stop, end), of_service(options_.stop, end);
            Request own = request;
            own.stop = either.get_token();
            return find_or_compile_now(own);
        });
    if (!asked_tiers) events_.count_memory_hit();
    return built;
}

BinaryBuilder::Built BinaryBuilder::find_or_compile_now(const Request& request) {
    if (auto hit = find_unstored(request)) return std::move(*hit);
    if (auto hit = tiers_.find(request.wanted())) return std::move(*hit);
    if (auto hit = find_for_other_arch(request, Includes::same)) return std::move(*hit);
    std::optional<Built> other;
    if (request.keys.open && request.keys.open->any_includes) {
        other = tiers_.find_with_any_includes(request.wanted());
        if (!other) other = find_for_other_arch(request, Includes::any);
    }
    if (other) {
        if (!request.source.include_digest.empty())
            events_.warn_once("nothing may be compiled: the binary of " + std::string(request.variant) +
                              " was made with other headers of include directories than those that are here");
        return std::move(*other);
    }
    events_.trace({TraceKind::miss, Origin::compiled, request.key.digest, request.variant, 0, 0, {}});
    if (options_.cached_only) {
        events_.count(&Counters::misses);
        throw BuildError(request.variant + " is in no tier of the cache for " + request.target.arch +
                         ", and compiling is switched off" + other_archs_text(request));
    }
    if (!request.keys.has_compiler()) {
        events_.count(&Counters::misses);
        std::rethrow_exception(request.keys.no_compiler);
    }
    if (!options_.caching) {
        Built built{compile(request), Origin::off, {}};
        keep_unstored(request, built);
        return built;
    }
    Built built = compile_for_all(request);
    tiers_.flush();
    return built;
}

std::optional<BinaryBuilder::Built> BinaryBuilder::find_unstored(const Request& request) {
    const std::lock_guard lock(mutex_);
    const auto found = unstored_.find(request.key.digest);
    if (found == unstored_.end() || request.refused != nullptr) return std::nullopt;
    events_.count_memory_hit();
    Built built = found->second;
    built.origin = Origin::memory;
    return built;
}

void BinaryBuilder::keep_unstored(const Request& request, const Built& built) {
    if (!is_shared_) return;
    const std::lock_guard lock(mutex_);
    unstored_.insert_or_assign(request.key.digest, built);
}

BuildKey BinaryBuilder::open_key_for(const Request& request, const std::string& arch) const {
    const Target other{request.target.backend, arch, {}};
    return make_open_key(other, compiler_->options(other, request.source), request.source);
}

std::optional<BinaryBuilder::Built> BinaryBuilder::find_for_other_arch(const Request& request,
                                                                       Includes includes) {
    const Target& target = request.target;
    const bool is_ptx = target.backend == Backend::cuda;
    if (!request.keys.open || compiles(request) || (is_ptx && !request.source.linked.empty()))
        return std::nullopt;
    for (const std::string& arch : serving_archs(target)) {
        OpenLookup open = *request.keys.open;
        open.key = open_key_for(request, arch);
        const Tiers::Wanted wanted{open.key, request.variant, request.refused, true, &open, false};
        auto hit = includes == Includes::same ? tiers_.find(wanted) : tiers_.find_with_any_includes(wanted);
        if (!hit) continue;
        events_.warn_once(
            "there is no binary of " + std::string(request.variant) + " for " + target.arch + ": " +
            (is_ptx ? "the PTX for " + arch + " is used, which the driver compiles when it loads it"
                    : "that for " + arch + " is used, which may be slower") +
            "; a pack that is made with --arch " + target.arch + " has one");
        return hit;
    }
    return std::nullopt;
}

std::string BinaryBuilder::other_archs_text(const Request& request) const {
    std::vector<std::string> archs;
    if (!request.source.linked.empty()) return {};
    for (const std::string& arch : known_archs(request.target.backend)) {
        if (arch == request.target.arch) continue;
        const BuildKey key = open_key_for(request, arch);
        if (std::ranges::any_of(tiers_.setup().seeds, [&](const SeedPack& pack) {
                return pack.find_of_any_compiler(key, Includes::any).binary.has_value();
            }))
            archs.push_back(arch);
    }
    return archs.empty() ? "" : "; the packs have it for " + enumerate(archs);
}

// One compiles, for the other processes of this machine and for the other machines.
BinaryBuilder::Built BinaryBuilder::compile_for_all(const Request& request) {
    std::optional<Built> handed_over;
    std::optional<Flight> flight;
    if (LocalLocks* locks = tiers_.locks()) {
        const auto probe = [&] {
            handed_over = tiers_.find_on_disk(request.wanted(true));
            return handed_over.has_value();
        };
        flight.emplace(Flight::board(*locks, request.key.digest, {options_.wait_limit}, probe, request.stop));
        if (flight->waited()) note_wait(request, flight->waited_ms(), flight->took_over());
        if (!locks->problem().empty())
            events_.warn_once(locks->problem() + "; processes may compile the same kernel at once");
        if (flight->role() == Flight::Role::served) return std::move(*handed_over);
    }
    bool published = false;
    try {
        std::unique_ptr<RemoteCache::Lease> lease;
        if (RemoteCache* remote = tiers_.leases()) handed_over = from_other_machine(request, *remote, lease);
        if (handed_over) {
            // As far as the disk took it; else the others find it remotely, as this one did.
            published = true;
        } else {
            handed_over = Built{compile(request), Origin::compiled, {}};
            published = tiers_.store(request.wanted(), handed_over->binary);
            if (!published) keep_unstored(request, *handed_over);
        }
    } catch (...) {
        // Who cancels says nothing about the source: one of those who wait leads then.
        if (flight && !request.stop.stop_requested()) flight->settle(false);
        throw;
    }
    if (flight) flight->settle(published);
    return std::move(*handed_over);
}

// Waits while another machine holds the lease, for what it will store. nullopt: to be compiled here, with the
// lease where there was one to have.
std::optional<BinaryBuilder::Built> BinaryBuilder::from_other_machine(
    const Request& request, RemoteCache& remote, std::unique_ptr<RemoteCache::Lease>& lease) {
    using std::chrono::milliseconds;
    const Stopwatch watch;
    const auto limit_ms = static_cast<double>(options_.wait_limit.count());
    bool waited = false;
    std::optional<Built> found;
    for (milliseconds pause{10};; pause = std::min(2 * pause, milliseconds(200))) {
        auto answer = remote.try_lease(request.key.digest);
        lease = std::move(answer.lease);
        if (answer.right == RemoteCache::Right::unavailable) break;
        // Also with the lease in hand: its last holder may have stored since the look-up.
        found = tiers_.find_remotely(request.wanted(true));
        if (found || answer.right == RemoteCache::Right::mine) break;
        waited = true;
        if (watch.elapsed_ms() > limit_ms || request.stop.stop_requested()) break;
        std::mutex mutex;
        std::unique_lock lock(mutex);
        std::condition_variable_any().wait_for(lock, request.stop, pause, [] { return false; });
    }
    if (waited) note_wait(request, watch.elapsed_ms(), !found);
    if (found) lease.reset();
    return found;
}

void BinaryBuilder::note_wait(const Request& request, double waited_ms, bool took_over) {
    events_.count(&Counters::waits);
    events_.trace({TraceKind::wait, Origin::compiled, request.key.digest, request.variant, waited_ms, 0, {}});
    if (!took_over) return;
    events_.count(&Counters::take_overs);
    events_.trace(
        {TraceKind::take_over, Origin::compiled, request.key.digest, request.variant, waited_ms, 0, {}});
}

// The front end has seen the template once for all functions of these names: its LTO-IR is an entry of its own.
Binary BinaryBuilder::link(const Request& request) {
    Source own = request.source;
    own.linked.clear();
    own.to_ltoir = true;
    const Keys keys = this->keys(request.target, own);
    const Built ltoir = find_or_compile(
        {request.target, keys, keys.key, own, request.variant, request.isolation, nullptr, request.stop});
    if (request.stop.stop_requested())
        throw BuildError(request.source.file_name + " was not linked: a stop was requested");
    return traced(events_, request.key.digest, request.variant, request.stop,
                  [&] { return compiler_->link(request.source, request.target, ltoir.binary); });
}

Binary BinaryBuilder::compile(const Request& request) {
    const auto& file = request.source.file_name;
    events_.count(&Counters::misses);  // not before: another process or machine might have served it
    if (request.stop.stop_requested()) throw BuildError(file + " was not compiled: a stop was requested");
    if (!request.source.linked.empty()) return link(request);
    events_.count(&Counters::compiles);
    try {
        return traced(events_, request.key.digest, request.variant, request.stop, [&] {
            Binary binary = compiler_->compile(includes_.with_headers(request.source), request.target,
                                               request.keys.compiler, {request.isolation, request.stop});
            events_.count(&Counters::compile_ms, static_cast<std::uint64_t>(binary.compile_ms));
            return binary;
        });
    } catch (const std::exception& error) {
        if (const auto* rejected = dynamic_cast<const BuildError*>(&error)) {
            const auto header = missing_header(rejected->log());
            if (!header) throw;
            throw BuildError(file + ": the header " + *header + " was not found. " +
                                 missing_header_advice(*header, includes_.directories(request.source)),
                             rejected->log());
        }
        const auto* const of_system = dynamic_cast<const std::system_error*>(&error);
        if (of_system == nullptr) throw;
        const std::string remedy =
            of_system->code() == std::errc::too_many_files_open
                ? "Close some files, or raise the process's limit (ulimit -n)."
            : of_system->code() == std::errc::too_many_files_open_in_system
                ? "The system has as many open files as it may (sysctl fs.file-max)."
                : "Compilers need a directory for temporary files; TMPDIR names another.";
        std::throw_with_nested(BuildError(file + " can't be compiled: " + error.what() + ". " + remedy));
    }
}

}  // namespace kiln
