// SPDX-License-Identifier: Apache-2.0
//
// Memory, then a binary, then the driver. A failure is remembered nowhere: whoever waited for it gets the exception,
// whoever comes later tries again.
#include "service/builder.h"

#include <kiln/error.h>

#include <exception>
#include <utility>

#include "base/stopwatch.h"
#include "format/format.h"
#include "service/binary_limits.h"
#include "service/explain.h"
#include "template/kernel_launch.h"
#include "template/tensor_maps.h"

namespace kiln {

Builder::Builder(Selection selection, BinaryBuilder& binaries, bool validates,
                 std::shared_ptr<const ProfilerRanges> ranges, ServiceEvents& events)
    : selection_(std::move(selection)),
      binaries_(binaries),
      validates_(validates),
      ranges_(std::move(ranges)),
      events_(events) {}

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
    Source made = variant.source(selection_.target.backend, binaries_.options().debug);
    for (const std::string& option : binaries_.options().compile_options) made.options.push_back({option});
    binaries_.includes().identify(made);
    return made;
}

BuildKey Builder::key(const Source& build_source) const {
    BinaryBuilder::Keys all = binaries_.keys(selection_.target, build_source);
    if (!all.has_compiler()) std::rethrow_exception(all.no_compiler);
    return std::move(all.key);
}

Explanation Builder::explain(const Variant& variant) const {
    const BinaryBuilder::Keys all = binaries_.keys(selection_.target, source(validated(variant)));
    std::string no_compiler;
    try {
        if (!all.has_compiler()) std::rethrow_exception(all.no_compiler);
    } catch (const BuildError& error) {
        no_compiler = error.what();
    }
    return explain_key(all.has_compiler() ? all.key : BuildKey{}, binaries_.tiers().setup(),
                       all.open ? &*all.open : nullptr, no_compiler);
}

Builder::Found Builder::kernel(const Variant& variant, Isolation isolation, const std::stop_token& stop) {
    if (KernelPointer loaded = kernels_.find(variant)) {
        events_.count_memory_hit();
        return {std::move(loaded), Origin::memory};
    }
    // Stays so for who finds or is given what another thread has loaded.
    Origin origin = Origin::memory;
    KernelPointer kernel = single_flight(in_flight_mutex_, in_flight_, variant, stop,
                                         [&](const std::stop_token& all) -> KernelPointer {
                                             // Another thread may have finished between the look-up above and here.
                                             if (KernelPointer loaded = kernels_.find(variant)) return loaded;
                                             Found loaded = load_new(validated(variant), isolation, all);
                                             origin = loaded.origin;
                                             return kernels_.add(variant, std::move(loaded.kernel));
                                         });
    Found found{std::move(kernel), origin};
    if (origin == Origin::memory) events_.count_memory_hit();
    return found;
}

Builder::Found Builder::load_new(const Variant& variant, Isolation isolation, const std::stop_token& stop) {
    if (!selection_.device)
        throw DeviceError("this service only compiles; a kernel to call needs a device", "", 0);
    const auto& driver = selection_.device->driver();
    const ProfilerRange range(ranges_.get(), "build " + variant.text());
    const Stopwatch building;
    const Source build_source = source(variant);
    const BinaryBuilder::Keys found_by = binaries_.keys(selection_.target, build_source);
    const BuildKey& build_key = found_by.key;
    const auto find = [&](const Bytes* refused) {
        Built found = binaries_.find_or_compile(
            {selection_.target, found_by, build_key, build_source, variant.text(), isolation, refused, stop});
        check_limits(variant, found.binary);  // before the driver rejects it with less of a reason
        return found;
    };
    Built built = find(nullptr);
    BuildInfo info;
    info.build_ms = building.elapsed_ms();

    Stopwatch loading;
    std::shared_ptr<Module> module;
    try {
        module = driver->load(built.binary);
    } catch (const DeviceError& error) {
        if (built.origin == Origin::compiled || built.origin == Origin::off || !binaries_.compiles()) throw;
        // The tier's entry is intact and yet the driver does not accept it: rebuild in the same call, which
        // replaces the entry. It is not removed: the driver may have failed for another reason.
        const std::string reason = "the entry " + build_key.digest + " (" + std::string(name(built.origin)) +
                                   ") was rebuilt: " + error.what();
        events_.count(&Counters::rejected_entries);
        events_.trace({TraceKind::reject, built.origin, build_key.digest, variant.text(), 0, 0, reason});
        events_.warn_once(reason);
        const Bytes refused = built.binary.bytes;
        built = find(&refused);
        info.build_ms = building.elapsed_ms();
        loading = Stopwatch();
        module = driver->load(built.binary);
    }
    const FunctionInfo& function = module->info();
    check_binary_arguments(variant, function);
    const LaunchShape shape{{}, variant.block(), variant.cluster(), variant.dynamic_shared_bytes()};
    module->allow_dynamic_shared(shape.dynamic_shared_bytes);
    if (built.binary.more_entries.size() + 1 != kernel_count(variant))
        throw BuildError(formatted("the binary of {} has {} kernels and its template {}",
                                   variant.template_name(), built.binary.more_entries.size() + 1,
                                   kernel_count(variant)));
    std::vector<std::shared_ptr<Module>> others;
    for (std::size_t i = 0; i < built.binary.more_entries.size(); ++i) {
        others.push_back(module->other(built.binary, i));
        check_binary_arguments(variant, others.back()->info(), i + 1);
        others.back()->allow_dynamic_shared(kernel_launch(variant, i + 1).dynamic_shared_bytes);
    }

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
    return {std::make_shared<LoadedKernel>(variant, driver, std::move(module), std::move(others),
                                           built.binary.kind, std::move(info), validates_, ranges_),
            built.origin};
}

void Builder::check_limits(const Variant& variant, const Binary& binary) const {
    const std::string warning = check_binary_limits(variant, binary, selection_.target);
    if (!warning.empty()) events_.warn_once(warning);
}

Compiled Builder::binary(const Variant& variant, Isolation isolation, const std::stop_token& stop) {
    const ProfilerRange range(ranges_.get(), "build " + variant.text());
    const Stopwatch watch;
    const Variant legal = validated(variant);
    const Source build_source = source(legal);
    Compiled compiled;
    const BinaryBuilder::Keys found_by = binaries_.keys(selection_.target, build_source);
    Built built = binaries_.find_or_compile(
        {selection_.target, found_by, found_by.key, build_source, legal.text(), isolation, nullptr, stop});
    check_limits(legal, built.binary);
    compiled.key = built.key.digest.empty() ? found_by.key : built.key;
    compiled.binary = std::move(built.binary);
    compiled.origin = built.origin;
    compiled.elapsed_ms = watch.elapsed_ms();
    return compiled;
}

}  // namespace kiln
