// SPDX-License-Identifier: Apache-2.0
//
// Memory, then disk, then the compiler. A failure is remembered nowhere: whoever waited for it gets
// the exception, whoever comes later tries again.
#include "service/builder.h"

#include <kiln/error.h>

#include <system_error>
#include <utility>

#include "base/stopwatch.h"
#include "cache/build_key.h"

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

Builder::Builder(Selection selection, std::unique_ptr<DiskCache> disk, bool caching,
                 std::function<void(std::string_view)> warn)
    : selection_(std::move(selection)), disk_(std::move(disk)), caching_(caching), warn_(std::move(warn)) {
    if (disk_ && !disk_->problem().empty()) warn_of_disk();
}

Variant Builder::validated(const Variant& variant) const {
    const auto& target = variant.target();
    if (target && target->backend == selection_.target.backend && target->arch == selection_.target.arch &&
        target->limits == selection_.target.limits)
        return variant;
    return variant.origin().for_target(selection_.target).variant(variant.values());
}

Source Builder::source(const Variant& variant) const { return variant.source(selection_.target.backend); }

BuildKey Builder::key(const Source& build_source) const {
    auto& compiler = *selection_.compiler;
    return make_build_key(selection_.target, compiler.identity(), compiler.options(selection_.target),
                          build_source);
}

Builder::Found Builder::kernel(const Variant& variant) {
    {
        const std::shared_lock lock(kernels_mutex_);
        if (const auto found = kernels_.find(variant); found != kernels_.end()) {
            counters_.memory_hits.fetch_add(1, std::memory_order_relaxed);
            return {found->second, Origin::memory};
        }
    }
    Origin origin = Origin::memory;
    const auto future = single_flight(in_flight_mutex_, in_flight_, variant, [&]() -> KernelPointer {
        // Another thread may have finished between the look-up above and here.
        {
            const std::shared_lock lock(kernels_mutex_);
            if (const auto found = kernels_.find(variant); found != kernels_.end()) return found->second;
        }
        Found loaded = load_new(validated(variant));
        origin = loaded.origin;
        const std::unique_lock lock(kernels_mutex_);
        return kernels_.try_emplace(variant, std::move(loaded.kernel)).first->second;
    });
    return {future.get(), origin};
}

Builder::Found Builder::load_new(const Variant& variant) {
    if (!selection_.device)
        throw DeviceError("this service only compiles; a kernel to call needs a device", "", 0);
    const auto& driver = selection_.device->driver();
    const Stopwatch building;
    const Source build_source = source(variant);
    const BuildKey build_key = key(build_source);
    Built built = find_or_compile(build_key, build_source, true);
    BuildInfo info;
    info.build_ms = building.elapsed_ms();

    Stopwatch loading;
    std::shared_ptr<Module> module;
    try {
        module = driver->load(built.binary);
    } catch (const DeviceError& error) {
        if (built.origin != Origin::disk) throw;
        // What the disk gave is whole and yet the driver does not take it: rebuild in the same call, which
        // replaces the entry. It is not removed: the driver may have failed for another reason.
        counters_.rejected_entries.fetch_add(1, std::memory_order_relaxed);
        warn_once(disk_->entry_path(build_key).string() + " was rebuilt: " + error.what());
        built = find_or_compile(build_key, build_source, false);
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
    info.key = build_key;
    info.compiler = std::move(built.binary.compiler);
    info.log = std::move(built.binary.log);
    info.registers = function.registers;
    info.local_bytes = function.local_bytes;
    info.static_shared_bytes =
        function.static_shared_bytes != 0 ? function.static_shared_bytes : variant.static_shared_bytes();
    info.dynamic_shared_bytes = shape.dynamic_shared_bytes;
    info.blocks_per_multiprocessor = module->blocks_per_multiprocessor(shape);
    return {std::make_shared<LoadedKernel>(variant, driver, std::move(module), std::move(info)),
            built.origin};
}

Builder::Built Builder::binary(const Variant& variant) {
    const Source build_source = source(validated(variant));
    return find_or_compile(key(build_source), build_source, true);
}

Builder::Built Builder::find_or_compile(const BuildKey& build_key, const Source& build_source,
                                        bool look_on_disk) {
    // Who was given a useless entry must not wait for one who is about to be given the same.
    auto& flights = look_on_disk ? finding_ : rebuilding_;
    const auto future = single_flight(in_flight_mutex_, flights, build_key.digest, [&]() -> Built {
        if (disk_ && look_on_disk) {
            auto lookup = disk_->find(build_key);
            if (lookup.binary) {
                counters_.disk_hits.fetch_add(1, std::memory_order_relaxed);
                return {std::move(*lookup.binary), Origin::disk};
            }
            if (!lookup.rejected.empty()) {
                counters_.rejected_entries.fetch_add(1, std::memory_order_relaxed);
                warn_once(lookup.rejected);
            }
        }
        counters_.misses.fetch_add(1, std::memory_order_relaxed);
        try {
            counters_.compiles.fetch_add(1, std::memory_order_relaxed);
            Built built{compile(build_source), caching_ ? Origin::compiled : Origin::off};
            if (disk_) {
                if (disk_->store(build_key, built.binary))
                    counters_.stored_entries.fetch_add(1, std::memory_order_relaxed);
                else
                    warn_of_disk();
            }
            return built;
        } catch (...) {
            counters_.build_failures.fetch_add(1, std::memory_order_relaxed);
            throw;
        }
    });
    return future.get();
}

Binary Builder::compile(const Source& build_source) {
    try {
        return selection_.compiler->compile(build_source, selection_.target);
    } catch (const std::system_error& error) {
        throw BuildError(build_source.file_name + " can't be compiled: " + error.what() +
                         ". Compilers need a directory for temporary files; TMPDIR names another.");
    }
}

void Builder::warn_of_disk() { warn_once(disk_->problem() + "; new kernels are kept in memory only"); }

void Builder::warn_once(const std::string& text) {
    {
        const std::lock_guard lock(warned_mutex_);
        if (!warned_.insert(text).second) return;
    }
    warn_(text);
}

Counters Builder::counters() const {
    return {counters_.memory_hits,    counters_.disk_hits,        counters_.misses,        counters_.compiles,
            counters_.build_failures, counters_.rejected_entries, counters_.stored_entries};
}

}  // namespace kiln
