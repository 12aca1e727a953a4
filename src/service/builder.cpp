// SPDX-License-Identifier: Apache-2.0
//
// Memory, then the tiers, then the compiler. A failure is not remembered: callers that waited for the build
// get the exception, later ones try again.
#include "service/builder.h"

#include <kiln/error.h>

#include <algorithm>
#include <condition_variable>
#include <system_error>
#include <utility>

#include "base/arch_facts.h"
#include "base/stopwatch.h"
#include "cache/build_key.h"
#include "compile/missing_header.h"
#include "service/explain.h"
#include "template/tensor_maps.h"

namespace kiln {
namespace {

// Runs `work` for the first caller of a key; the others wait for its result. The key is forgotten when
// the work has ended, well or badly.
template <class Map, class Key, class Work>
auto single_flight(std::mutex& mutex, Map& map, const Key& key, Work work) -> typename Map::mapped_type {
    using Result = decltype(work());
    std::promise<Result> promise;
    auto future = promise.get_future().share();
    {
        const std::lock_guard lock(mutex);
        if (const auto [place, is_new] = map.try_emplace(key, future); !is_new) return place->second;
    }
    try {
        promise.set_value(work());
    } catch (...) {
        promise.set_exception(std::current_exception());
    }
    const std::lock_guard lock(mutex);
    map.erase(key);
    return future;
}

}  // namespace

Builder::Builder(Selection selection, IncludeTree includes, CacheSetup cache, BuilderOptions options,
                 Observer& observer)
    : selection_(std::move(selection)),
      includes_(std::move(includes)),
      options_(std::move(options)),
      observer_(observer),
      tiers_(std::move(cache), observer) {}

Variant Builder::validated(const Variant& variant) const {
    if (selection_.target.backend == Backend::hip && tensor_map_count(variant) != 0)
        throw UsageError("kernel " + variant.template_name() +
                         " has tensor maps, which AMD's devices lack; a line `//@ backend cuda, host` in its "
                         "template says so before it is chosen");
    const auto& target = variant.target();
    if (target && target->backend == selection_.target.backend && target->arch == selection_.target.arch &&
        target->limits == selection_.target.limits)
        return variant;
    return variant.origin().for_target(selection_.target).variant(variant.values());
}

Source Builder::source(const Variant& variant) const {
    Source made = variant.source(selection_.target.backend);
    includes_.identify(made);
    return made;
}

Builder::Keys Builder::keys(const Source& build_source) const {
    auto& compiler = *selection_.compiler;
    const auto options = compiler.options(selection_.target, build_source);
    Keys keys;
    if (options_.cached_only || tiers_.setup().named_seeds > 0)
        keys.open = OpenLookup{make_open_key(selection_.target, options, build_source, !options_.cached_only),
                               options_.cached_only};
    try {
        keys.compiler = compiler.ingredients();
    } catch (const BuildError&) {
        if (!keys.open) throw;
        keys.no_compiler = std::current_exception();
        keys.key = keys.open->key;
        return keys;
    }
    CompilerFields fields(keys.compiler.identity, {}, keys.compiler.options);
    for (const auto& [name, value] : keys.compiler.environment)
        fields.environment.push_back(name + "=" + value);
    keys.key = make_build_key(selection_.target, fields, options, build_source);
    return keys;
}

BuildKey Builder::key(const Source& build_source) const {
    Keys all = keys(build_source);
    if (!all.has_compiler()) std::rethrow_exception(all.no_compiler);
    return std::move(all.key);
}

Explanation Builder::explain(const Variant& variant) const {
    const Keys all = keys(source(validated(variant)));
    std::string no_compiler;
    try {
        if (!all.has_compiler()) std::rethrow_exception(all.no_compiler);
    } catch (const BuildError& error) {
        no_compiler = error.what();
    }
    return explain_key(all.has_compiler() ? all.key : BuildKey{}, tiers_.setup(),
                       all.open ? &*all.open : nullptr, no_compiler);
}

Builder::Found Builder::kernel(const Variant& variant, Isolation isolation) {
    if (KernelPointer loaded = kernels_.find(variant)) {
        observer_.count_memory_hit();
        return {std::move(loaded), Origin::memory};
    }
    // Stays so for who finds or is given what another thread has loaded.
    Origin origin = Origin::memory;
    const auto future = single_flight(in_flight_mutex_, in_flight_, variant, [&]() -> KernelPointer {
        // Another thread may have finished between the look-up above and here.
        if (KernelPointer loaded = kernels_.find(variant)) return loaded;
        Found loaded = load_new(validated(variant), isolation);
        origin = loaded.origin;
        return kernels_.add(variant, std::move(loaded.kernel));
    });
    Found found{future.get(), origin};
    if (origin == Origin::memory) observer_.count_memory_hit();
    return found;
}

Builder::Found Builder::load_new(const Variant& variant, Isolation isolation) {
    if (!selection_.device)
        throw DeviceError("this service only compiles; a kernel to call needs a device", "", 0);
    const auto& driver = selection_.device->driver();
    const Stopwatch building;
    const Source build_source = source(variant);
    const Keys found_by = keys(build_source);
    const BuildKey& build_key = found_by.key;
    Built built = find_or_compile({found_by, build_key, build_source, variant.text(), isolation, nullptr});
    BuildInfo info;
    info.build_ms = building.elapsed_ms();

    Stopwatch loading;
    std::shared_ptr<Module> module;
    try {
        module = driver->load(built.binary);
    } catch (const DeviceError& error) {
        if (built.origin == Origin::compiled || built.origin == Origin::off || options_.cached_only) throw;
        // The tier's entry is intact and yet the driver does not accept it: rebuild in the same call, which
        // replaces the entry. It is not removed: the driver may have failed for another reason.
        const std::string reason = "the entry " + build_key.digest + " (" + std::string(name(built.origin)) +
                                   ") was rebuilt: " + error.what();
        observer_.count(&Counters::rejected_entries);
        observer_.trace({TraceKind::reject, built.origin, build_key.digest, variant.text(), 0, 0, reason});
        observer_.warn_once(reason);
        const Bytes refused = built.binary.bytes;
        built = find_or_compile({found_by, build_key, build_source, variant.text(), isolation, &refused});
        info.build_ms = building.elapsed_ms();
        loading = Stopwatch();
        module = driver->load(built.binary);
    }
    const FunctionInfo& function = module->info();
    check_binary_arguments(variant, function);
    const LaunchShape shape{{}, variant.block(), variant.cluster(), variant.dynamic_shared_bytes()};
    module->allow_dynamic_shared(shape.dynamic_shared_bytes);

    info.load_ms = loading.elapsed_ms();
    info.origin = built.origin;
    info.key = built.key.digest.empty() ? build_key : built.key;
    info.compiler = std::move(built.binary.compiler);
    info.log = std::move(built.binary.log);
    info.registers = function.registers;
    info.local_bytes = function.local_bytes;
    info.static_shared_bytes =
        function.static_shared_bytes != 0 ? function.static_shared_bytes : variant.static_shared_bytes();
    info.dynamic_shared_bytes = shape.dynamic_shared_bytes;
    info.blocks_per_multiprocessor = module->blocks_per_multiprocessor(shape);
    return {std::make_shared<LoadedKernel>(variant, driver, std::move(module), built.binary.kind,
                                           std::move(info), options_.validates),
            built.origin};
}

Compiled Builder::binary(const Variant& variant, Isolation isolation) {
    const Stopwatch watch;
    const Variant legal = validated(variant);
    const Source build_source = source(legal);
    Compiled compiled;
    const Keys found_by = keys(build_source);
    Built built = find_or_compile({found_by, found_by.key, build_source, legal.text(), isolation, nullptr});
    compiled.key = built.key.digest.empty() ? found_by.key : built.key;
    compiled.binary = std::move(built.binary);
    compiled.origin = built.origin;
    compiled.elapsed_ms = watch.elapsed_ms();
    return compiled;
}

Builder::Built Builder::find_or_compile(const Request& request) {
    // Who was given a useless entry must not wait for one who is about to be given the same.
    auto& flights = request.refused == nullptr ? finding_ : rebuilding_;
    bool asked_tiers = false;
    const auto future = single_flight(in_flight_mutex_, flights, request.key.digest, [&]() -> Built {
        asked_tiers = true;
        if (auto hit = tiers_.find(request.wanted())) return std::move(*hit);
        if (auto hit = find_ptx(request)) return std::move(*hit);
        observer_.trace({TraceKind::miss, Origin::compiled, request.key.digest, request.variant, 0, 0, {}});
        if (options_.cached_only) {
            observer_.count(&Counters::misses);
            throw BuildError(request.variant + " is in no tier of the cache, and compiling is switched off");
        }
        if (!request.keys.has_compiler()) {
            observer_.count(&Counters::misses);
            std::rethrow_exception(request.keys.no_compiler);
        }
        if (!options_.caching) return {compile(request), Origin::off, {}};
        Built built = compile_for_all(request);
        tiers_.flush();
        return built;
    });
    Built built = future.get();
    if (!asked_tiers) observer_.count_memory_hit();
    return built;
}

std::optional<Builder::Built> Builder::find_ptx(const Request& request) {
    const Target& target = selection_.target;
    const bool compiles_here = !options_.cached_only && request.keys.has_compiler();
    const auto number = cuda_arch_number(target.arch);
    if (target.backend != Backend::cuda || !number || !request.keys.open || compiles_here)
        return std::nullopt;
    const auto archs = cuda_archs();
    for (auto arch = archs.rbegin(); arch != archs.rend(); ++arch) {
        if (arch->number > *number) continue;
        const Target older{Backend::cuda, "compute_" + std::to_string(arch->number), {}};
        const OpenLookup open{make_open_key(older, selection_.compiler->options(older, request.source),
                                            request.source, !options_.cached_only),
                              request.keys.open->everywhere};
        auto hit = tiers_.find({open.key, request.variant, request.refused, true, &open, false});
        if (!hit) continue;
        observer_.warn_once(
            "there is no binary of " + std::string(request.variant) + " for " + target.arch +
            ": the PTX for " + older.arch +
            " is used, which the driver compiles when it loads it; a pack that is made with --arch " +
            target.arch + " has one");
        return hit;
    }
    return std::nullopt;
}

// One compiles, for the other processes of this machine and for the other machines.
Builder::Built Builder::compile_for_all(const Request& request) {
    std::optional<Built> handed_over;
    std::optional<Flight> flight;
    if (LocalLocks* locks = tiers_.locks()) {
        const auto probe = [&] {
            handed_over = tiers_.find_on_disk(request.wanted(true));
            return handed_over.has_value();
        };
        flight.emplace(
            Flight::board(*locks, request.key.digest, {options_.wait_limit}, probe, options_.stop));
        if (flight->waited()) note_wait(request, flight->waited_ms(), flight->took_over());
        if (!locks->problem().empty())
            observer_.warn_once(locks->problem() + "; processes may compile the same kernel at once");
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
        }
    } catch (...) {
        if (flight) flight->settle(false);
        throw;
    }
    if (flight) flight->settle(published);
    return std::move(*handed_over);
}

// Waits while another machine holds the lease, for what it will store. nullopt: to be compiled here, with the
// lease where there was one to have.
std::optional<Builder::Built> Builder::from_other_machine(const Request& request, RemoteCache& remote,
                                                          std::unique_ptr<RemoteCache::Lease>& lease) {
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
        if (watch.elapsed_ms() > limit_ms || options_.stop.stop_requested()) break;
        std::mutex mutex;
        std::unique_lock lock(mutex);
        std::condition_variable_any().wait_for(lock, options_.stop, pause, [] { return false; });
    }
    if (waited) note_wait(request, watch.elapsed_ms(), !found);
    if (found) lease.reset();
    return found;
}

void Builder::note_wait(const Request& request, double waited_ms, bool took_over) {
    observer_.count(&Counters::waits);
    observer_.trace(
        {TraceKind::wait, Origin::compiled, request.key.digest, request.variant, waited_ms, 0, {}});
    if (!took_over) return;
    observer_.count(&Counters::take_overs);
    observer_.trace(
        {TraceKind::take_over, Origin::compiled, request.key.digest, request.variant, waited_ms, 0, {}});
}

Binary Builder::compile(const Request& request) {
    const auto& file = request.source.file_name;
    const Stopwatch watch;
    observer_.count(&Counters::misses);  // not before: another process or machine might have served it
    if (options_.stop.stop_requested())
        throw BuildError(file + " was not compiled, since a stop was requested");
    observer_.count(&Counters::compiles);
    try {
        Binary binary = selection_.compiler->compile(complete(request.source), selection_.target,
                                                     request.keys.compiler, request.isolation);
        observer_.count(&Counters::compile_ms, static_cast<std::uint64_t>(binary.compile_ms));
        observer_.trace({TraceKind::compile, Origin::compiled, request.key.digest, request.variant,
                         watch.elapsed_ms(), binary.bytes.size(), binary.compiler});
        return binary;
    } catch (const std::exception& error) {
        observer_.count(&Counters::build_failures);
        observer_.trace({TraceKind::failure, Origin::compiled, request.key.digest, request.variant,
                         watch.elapsed_ms(), 0, error.what()});
        if (const auto* rejected = dynamic_cast<const BuildError*>(&error)) {
            const auto header = missing_header(rejected->log());
            if (!header) throw;
            throw BuildError(file + ": the header " + *header + " was not found. " +
                                 missing_header_advice(*header, includes_.directories(request.source)),
                             rejected->log());
        }
        if (dynamic_cast<const std::system_error*>(&error) == nullptr) throw;
        throw BuildError(file + " can't be compiled: " + error.what() +
                         ". Compilers need a directory for temporary files; TMPDIR names another.");
    }
}

}  // namespace kiln
