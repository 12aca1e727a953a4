// SPDX-License-Identifier: Apache-2.0
//
// Argument checks against the kernel's declaration, and the launch itself.
#include "service/loaded_kernel.h"

#include <kiln/error.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/arch_facts.h"
#include "format/format.h"
#include "service/argument_types.h"
#include "template/kernel_launch.h"
#include "template/tensor_maps.h"

namespace kiln {
namespace {

std::string declaration(const Variant& variant) {
    std::string text;
    for (const auto& argument : variant.arguments())
        text += (text.empty() ? "" : ", ") + argument.type + " " + argument.name;
    return variant.template_name() + "(" + text + ")";
}

bool has_all_arguments(const Variant& variant) {
    return argument_places(variant).size() == variant.arguments().size();
}

// Of each argument that callers pass; empty where one of them is not known.
std::vector<std::size_t> passed_bytes(const Variant& variant, const FunctionInfo& info) {
    std::vector<std::size_t> bytes;
    const auto& declared = variant.arguments();
    for (std::size_t i = 0; i < declared.size(); ++i) {
        std::size_t size = declared_bytes(declared[i].type);
        if (size == 0 && info.argument_bytes && i < info.argument_bytes->size())
            size = (*info.argument_bytes)[i];
        if (size == 0) return {};
        bytes.push_back(size);
    }
    return bytes;
}

}  // namespace

bool waits_itself(const Variant& variant, BinaryKind kind) {
    return waits_itself(variant, may_overlap(variant), kind);
}

bool waits_itself(const Variant& variant, bool may_overlap, BinaryKind kind) {
    // PTX comes from an NVRTC older than the device, and may be made for less than sm_90.
    if (!may_overlap || kind != BinaryKind::cubin || !variant.target() ||
        variant.target()->backend != Backend::cuda)
        return false;
    const CudaArch* const arch = find_cuda_arch(variant.target()->arch);
    return arch != nullptr && arch->number >= 90;
}

LoadedKernel::LoadedKernel(Variant variant, std::shared_ptr<Driver> driver, std::shared_ptr<Module> module,
                           std::vector<std::shared_ptr<Module>> others, BinaryKind kind, BuildInfo info,
                           bool validates, std::shared_ptr<const ProfilerRanges> ranges)
    : variant_(std::move(variant)),
      driver_(std::move(driver)),
      module_(std::move(module)),
      info_(std::move(info)),
      tensor_maps_(variant_, passed_bytes(variant_, others.empty() ? module_->info() : FunctionInfo{})),
      checks_(variant_),
      has_copies_(has_variable_copies(variant_)),
      passes_as_given_(has_all_arguments(variant_) && tensor_maps_.count() == 0 && others.empty() &&
                       !has_copies_),
      validates_(validates && driver_->info().backend != Backend::host),
      ranges_(std::move(ranges)) {
    shape_.block = variant_.block();
    shape_.cluster = variant_.cluster();
    shape_.dynamic_shared_bytes = variant_.dynamic_shared_bytes();
    shape_.dependent = waits_itself(variant_, kind);
    KernelLaunch first = kernel_launch(variant_, 0);
    shape_.cooperative = first.cooperative;
    own_arguments_ = std::move(first.arguments);
    for (std::size_t i = 0; i < others.size(); ++i) {
        KernelLaunch launch = kernel_launch(variant_, i + 1);
        LaunchShape shape;
        shape.block = launch.block;
        shape.cluster = launch.cluster;
        shape.dynamic_shared_bytes = launch.dynamic_shared_bytes;
        shape.dependent = waits_itself(variant_, launch.dependent, kind);
        shape.cooperative = launch.cooperative;
        const auto blocks = shape.cooperative ? others[i]->blocks_per_multiprocessor(shape) : std::nullopt;
        others_.push_back({std::move(others[i]), shape, std::move(launch.arguments), blocks});
    }
}

void LoadedKernel::launch(StreamRef stream, void* const* arguments, const Dim3* grid) const {
    const ProfilerRange range(ranges_.get(), variant_.text());
    if (stream.driver() != driver_.get())
        if (const char* const problem = stream_problem(stream, *driver_)) [[unlikely]]
            throw UsageError("Kernel " + variant_.template_name() + " can't be launched: the stream " +
                             problem + ".");
    LaunchShape shape = shape_;
    const LaunchOptions* const options = stream.options();
    if (options != nullptr) [[unlikely]]
        apply(*options, shape);
    if (options != nullptr && options->multiprocessors != 0) [[unlikely]]
        shape.grid = variant_.grid(arguments, options->multiprocessors);
    else
        shape.grid = grid != nullptr ? *grid : variant_.grid(arguments);
    if (shape.grid.count() == 0) [[unlikely]]
        if (others_.empty()) return;  // which drivers reject
    checks_.check(variant_, arguments);
    if (shape.cooperative) [[unlikely]]
        check_cooperative(0, shape.grid, info_.blocks_per_multiprocessor);
    if (validates_) [[unlikely]]
        checks_.validate(variant_, *driver_, stream, arguments);
    if (!passes_as_given_) return launch_completed(shape, arguments, stream.handle());
    module_->launch(shape, arguments, stream.handle());
}

void LoadedKernel::apply(const LaunchOptions& options, LaunchShape& shape) const {
    const auto refuse = [&](const std::string& why) {
        throw UsageError("Kernel " + variant_.template_name() + " can't be launched: " + why + ".");
    };
    if (options.multiprocessors < 0)
        refuse(
            formatted("LaunchOptions::multiprocessors is {}; it is a number of multiprocessors, or 0 for all",
                      options.multiprocessors));
    if (options.dependent && *options.dependent && !variant_.dependent())
        refuse(
            "LaunchOptions::dependent is true, and this kernel does not wait for the one before it: its "
            "template has "
            "no `dependent` line, or one that is false for these values");
    if (const auto& window = options.access_policy) {
        if (!(window->hit_ratio >= 0 && window->hit_ratio <= 1))
            refuse(formatted("the hit ratio of its access policy window is {:f}; it is from 0 to 1",
                             window->hit_ratio));
        if (window->miss == AccessPolicyWindow::Property::persisting)
            refuse(
                "what misses its access policy window can't be persisting; normal and streaming are "
                "possible");
    }
    if (options.dependent && !*options.dependent) shape.dependent = false;
    shape.options = &options;
}

void LoadedKernel::launch_completed(const LaunchShape& shape, void* const* arguments, void* stream) const {
    constexpr std::size_t kUsual = 32;
    const auto& places = argument_places(variant_);
    std::array<void*, kUsual> few;
    std::vector<void*> many(
        places.size() + tensor_maps_.count() > kUsual ? places.size() + tensor_maps_.count() : 0);
    void** const all = many.empty() ? few.data() : many.data();
    void* nowhere = nullptr;
    for (std::size_t i = 0; i < places.size(); ++i) all[i] = places[i] ? arguments[*places[i]] : &nowhere;
    if (tensor_maps_.count() != 0) {
        const TensorMapArguments::Map* const maps = tensor_maps_.for_launch(variant_, *driver_, arguments);
        // The driver copies them; it does not write.
        for (std::size_t i = 0; i < tensor_maps_.count(); ++i)
            all[places.size() + i] = const_cast<std::byte*>(maps[i].bytes);
    }
    if (has_copies_ || !others_.empty()) return launch_in_order(shape, all, arguments, stream);
    module_->launch(shape, all, stream);
}

void LoadedKernel::queue_copies(void* const* arguments, void* stream) const {
    const std::vector<VariableCopy> copies = variable_copies(variant_, arguments);
    // Not when the kernel is loaded: a host kernel's object may be opened by its first launch, in another process.
    std::call_once(has_found_variables_, [&] {
        variables_.clear();
        for (const VariableCopy& copy : copies)
            variables_.push_back(module_->variable(std::string(copy.name)));
    });
    for (std::size_t i = 0; i < copies.size(); ++i) {
        const VariableCopy& copy = copies[i];
        const ModuleVariable& variable = variables_[i];
        if (copy.bytes > variable.bytes) {
            const std::string name(copy.name);
            throw VariantError(
                formatted("{}: the tensor {} has {} bytes, and the variable {}, to which it is copied, {}",
                          variant_.template_name(), name, copy.bytes, name, variable.bytes));
        }
        if (copy.bytes == 0) continue;
        driver_->queue_copy_on_device(
            variable.address, *static_cast<const void* const*>(arguments[copy.argument]), copy.bytes, stream);
    }
}

void LoadedKernel::check_cooperative(std::size_t kernel, Dim3 grid, std::optional<int> blocks) const {
    if (!blocks) return;  // the host says so itself
    const auto multiprocessors = static_cast<std::uint64_t>(driver_->info().limits.multiprocessors);
    const std::uint64_t fit = static_cast<std::uint64_t>(*blocks) * multiprocessors;
    if (grid.count() <= fit) return;
    throw VariantError(
        formatted(
            "{}: the blocks of a cooperative launch run all at once, and of the {} of this grid at most {} "
            "fit: {} on each of {} multiprocessors. A grid of at most device.multiprocessors{} blocks does",
            kernel_launch(variant_, kernel).name, grid.count(), fit, *blocks, multiprocessors,
            *blocks == 1 ? "" : formatted(" * {}", *blocks)),
        "cooperative");
}

void LoadedKernel::launch_in_order(const LaunchShape& shape, void* const* all, void* const* given,
                                   void* stream) const {
    // All grids first: what is wrong with one is said before anything is launched.
    std::vector<Dim3> grids;
    for (std::size_t i = 0; i < others_.size(); ++i)
        grids.push_back(shape.options == nullptr || shape.options->multiprocessors == 0
                            ? grid_of_kernel(variant_, i + 1, given)
                            : grid_of_kernel(variant_, i + 1, given, shape.options->multiprocessors));
    std::vector<void*> own;
    const auto launch = [&](const Module& module, const LaunchShape& of,
                            const std::vector<std::size_t>& arguments) {
        if (of.grid.count() == 0) return;
        own.clear();
        for (const std::size_t at : arguments) own.push_back(all[at]);
        module.launch(of, own.data(), stream);
    };
    for (std::size_t i = 0; i < others_.size(); ++i)
        if (others_[i].shape.cooperative)
            check_cooperative(i + 1, grids[i], others_[i].blocks_per_multiprocessor);
    // Else a thread's kernels would find in variables of the module what another thread's launch has put there.
    const Driver::LaunchLock lock = driver_->lock_launches(launching_);
    if (has_copies_) queue_copies(given, stream);
    launch(*module_, shape, own_arguments_);
    for (std::size_t i = 0; i < others_.size(); ++i) {
        LaunchShape next = others_[i].shape;
        next.grid = grids[i];
        next.options = shape.options;
        if (next.options != nullptr && next.options->dependent && !*next.options->dependent)
            next.dependent = false;
        launch(*others_[i].module, next, others_[i].arguments);
    }
}

void LoadedKernel::check_arguments(std::span<const ArgumentType> types) const {
    if (checked_.load(std::memory_order_relaxed) == types.data()) return;
    const auto& declared = variant_.arguments();
    if (types.size() != declared.size())
        throw UsageError(formatted("build<Fn>: Fn has {} arguments and the kernel has {}: {}", types.size(),
                                   declared.size(), declaration(variant_)));
    for (std::size_t i = 0; i < types.size(); ++i) {
        if (fits(types[i], declared[i].type)) continue;
        throw UsageError(formatted("build<Fn>: argument {} of Fn is {}, and the kernel declares {} {}: {}",
                                   i + 1, text_of(types[i]), declared[i].type, declared[i].name,
                                   declaration(variant_)));
    }
    checked_.store(types.data(), std::memory_order_relaxed);
}

void check_binary_arguments(const Variant& variant, const FunctionInfo& info, std::size_t kernel) {
    if (!info.argument_bytes) return;
    const auto& declared = variant.arguments();
    const auto& compiled = *info.argument_bytes;
    const auto& places = argument_places(variant);
    const KernelLaunch launch = kernel_launch(variant, kernel);
    const std::vector<std::size_t>& own = launch.arguments;
    if (compiled.size() != own.size()) {
        const auto maps = static_cast<std::size_t>(
            std::ranges::count_if(own, [&](std::size_t at) { return at >= places.size(); }));
        throw BuildError(
            formatted("the compiled kernel {} takes {} arguments and its declaration shows {}{}: {}",
                      launch.name, compiled.size(), own.size() - maps,
                      maps == 0 ? "" : formatted(" and {} tensor maps", maps), declaration(variant)));
    }
    for (std::size_t i = 0; i < own.size(); ++i) {
        if (own[i] >= places.size()) {
            if (compiled[i] == kTensorMapBytes) continue;
            throw BuildError(
                formatted("argument {} takes {} bytes in the compiled kernel, and the `tensormap` line that "
                          "it belongs to makes {}: declare it as const __grid_constant__ kiln::TensorMap",
                          i + 1, compiled[i], kTensorMapBytes));
        }
        if (!places[own[i]]) continue;
        const KernelArgument& argument = declared[*places[own[i]]];
        const std::size_t bytes = declared_bytes(argument.type);
        if (bytes != 0 && bytes != compiled[i])
            throw BuildError(
                formatted("argument {} takes {} bytes in the compiled kernel and {} in its declaration: {}",
                          argument.name, compiled[i], bytes, declaration(variant)));
    }
}

// AnyKernel

const LoadedKernel& AnyKernel::state() const {
    if (!state_) throw UsageError("this kernel handle is empty; it comes from Service::build");
    return *state_;
}

void AnyKernel::launch(StreamRef stream, void* const* arguments) const { state().launch(stream, arguments); }
const Variant& AnyKernel::variant() const { return state().variant(); }
const BuildInfo& AnyKernel::info() const { return state().info(); }
void* AnyKernel::function_handle() const { return state().module().function_handle(); }
void* AnyKernel::module_handle() const { return state().module().module_handle(); }
AnySymbol AnyKernel::any_symbol(const std::string& name) const {
    const ModuleVariable variable = state().module().variable(name);
    return {state_, state_->driver(), name, variable.address, variable.bytes};
}

// AnySymbol

void AnySymbol::check_elements(std::string_view type, std::size_t element_bytes, std::size_t count) const {
    const bool fits = count == 0 ? size_bytes() % element_bytes == 0 : size_bytes() == count * element_bytes;
    if (fits) return;
    const std::string of =
        type.empty() ? formatted(" of {} bytes", element_bytes) : " of " + std::string(type);
    throw UsageError(formatted("the variable {} has {} bytes, which are not {}{}{}", name_, size_bytes(),
                               count == 0 ? "a number of elements" : formatted("{} elements", count), of,
                               size_bytes() % element_bytes == 0
                                   ? formatted(" but {}", size_bytes() / element_bytes)
                                   : formatted(", of {} bytes each", element_bytes)));
}

}  // namespace kiln
