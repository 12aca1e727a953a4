// SPDX-License-Identifier: Apache-2.0
//
// A loaded binary with its kernel resolved on CUDA or HIP: function attributes, the limit of dynamic shared memory,
// launches.
#pragma once

#include <kiln/error.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/elf.h"
#include "device/capture.h"
#include "device/driver.h"
#include "device/gpu_context.h"
#include "device/module_variables.h"
#include "format/format.h"

namespace kiln::gpu {

/// "8x4x1"
inline std::string text(const Dim3& extent) { return formatted("{}x{}x{}", extent.x, extent.y, extent.z); }

/// Loads an ELF file for the device. kind: "cubin" or "code object". Throws DeviceError.
template <class Vendor>
ModuleHandle load_elf(const Context<Vendor>& context, const Binary& binary, const std::string& kind) {
    constexpr const char* kCall = Vendor::Api::Call::module_load_data;
    if (const std::string problem = elf_problem(binary.bytes); !problem.empty()) {
        throw DeviceError("the " + kind + " of '" + binary.entry + "' is damaged: it " + problem, kCall,
                          kErrorInvalidImage);
    }
    const auto scope = context.make_current();
    ModuleHandle module = nullptr;
    const Result result = context.api().module_load_data(&module, binary.bytes.data());
    if (result != kSuccess) {
        context.api().fail(result, kCall,
                           "loading the " + kind + " of '" + binary.entry + "' " + context.place() +
                               ", whose architecture is " + context.info().arch);
    }
    return module;
}

template <class Vendor>
class LoadedModule final : public Module {
  public:
    /// Loads the binary and resolves its kernel, so that no launch has to. Throws DeviceError.
    // Delegates first, so that the destructor unloads the module if the rest throws.
    LoadedModule(std::shared_ptr<const Context<Vendor>> context, const Binary& binary)
        : LoadedModule(context, Vendor::load(*context, binary)) {
        variables_ = declared_variables(binary.bytes);
        resolve(binary.entry);
    }
    /// Another kernel of a module that is loaded.
    LoadedModule(std::shared_ptr<const LoadedModule> first, const std::string& entry)
        : context_(first->context_), module_(first->module_), first_(std::move(first)) {
        const auto scope = context_->make_current();
        resolve(entry);
    }
    ~LoadedModule() override {
        if (first_) return;
        if (const auto scope = context_->try_make_current())
            static_cast<void>(context_->api().module_unload(module_));
    }
    LoadedModule(const LoadedModule&) = delete;
    LoadedModule& operator=(const LoadedModule&) = delete;

    const FunctionInfo& info() const override { return info_; }
    void allow_dynamic_shared(std::size_t bytes) override;
    void launch(const LaunchShape& shape, void* const* arguments, void* stream) const override;
    std::optional<int> blocks_per_multiprocessor(const LaunchShape& shape) const override;
    void* function_handle() const override { return function_; }
    void* module_handle() const override { return module_; }
    ModuleVariable variable(const std::string& name) const override;
    std::shared_ptr<Module> other(const Binary& binary, std::size_t number) const override {
        return std::make_shared<LoadedModule>(
            std::static_pointer_cast<const LoadedModule>(this->shared_from_this()),
            binary.more_entries[number]);
    }

  private:
    using Api = typename Vendor::Api;
    using Call = typename Api::Call;

    LoadedModule(std::shared_ptr<const Context<Vendor>> context, ModuleHandle module)
        : context_(std::move(context)), module_(module) {}

    void resolve(const std::string& entry) {
        const Api& api = context_->api();
        entry_ = entry;
        const Result result = api.module_get_function(&function_, module_, entry_.c_str());
        if (result != kSuccess)
            api.fail(result, Call::module_get_function, "the binary has no kernel '" + entry_ + "'");
        Vendor::make_ready(*context_, function_);
        info_.registers = attribute(kFunctionRegisters);
        info_.local_bytes = static_cast<std::size_t>(attribute(kFunctionLocalBytes));
        info_.static_shared_bytes = static_cast<std::size_t>(attribute(kFunctionSharedBytes));
        info_.max_threads_per_block = attribute(kFunctionMaxThreadsPerBlock);
        info_.argument_bytes = Vendor::argument_bytes(api, function_);
    }
    int attribute(FunctionAttribute which) const {
        int value = 0;
        const Api& api = context_->api();
        api.check(api.function_get_attribute(&value, which, function_), Call::function_get_attribute);
        return value;
    }
    [[noreturn]] void fail_launch(Result result, const char* call, const LaunchShape& shape) const;

    std::shared_ptr<const Context<Vendor>> context_;
    ModuleHandle module_;
    const std::shared_ptr<const LoadedModule> first_;  ///< that unloads it; null: this one does
    FunctionHandle function_ = nullptr;
    std::string entry_;
    std::vector<DeclaredVariable> variables_;  ///< of the one that was loaded
    FunctionInfo info_;
    std::mutex mutex_;                             // for raising the limit
    std::atomic<std::size_t> dynamic_shared_ = 0;  // the most that launches may ask for
};

template <class Vendor>
void LoadedModule<Vendor>::allow_dynamic_shared(std::size_t bytes) {
    const Limits& limits = context_->info().limits;
    const auto most = static_cast<std::size_t>(limits.shared_bytes_per_block_optin);
    const std::size_t fixed = info_.static_shared_bytes;
    if (bytes > most || fixed > most - bytes) {
        throw DeviceError(
            formatted("'{}' needs {} bytes of static and {} of dynamic shared memory, but a block {} has at "
                      "most {}; at most {} bytes can be dynamic",
                      entry_, fixed, bytes, context_->place(), most, most > fixed ? most - fixed : 0),
            Vendor::kSharedMemoryCall, kErrorInvalidValue);
    }
    const std::lock_guard lock(mutex_);
    if (bytes <= dynamic_shared_.load(std::memory_order_relaxed)) return;
    if (fixed + bytes > static_cast<std::size_t>(limits.shared_bytes_per_block)) {
        const auto scope = context_->make_current();
        if (const Result result = Vendor::opt_in_to_shared(context_->api(), function_, bytes);
            result != kSuccess) {
            context_->api().fail(result, Vendor::kSharedMemoryCall,
                                 formatted("allowing '{}' {} bytes of dynamic shared memory", entry_, bytes));
        }
    }
    dynamic_shared_.store(bytes, std::memory_order_relaxed);
}

// The hot path: no lock, no allocation, no look-up.
template <class Vendor>
void LoadedModule<Vendor>::launch(const LaunchShape& shape, void* const* arguments, void* stream) const {
    void** const values = const_cast<void**>(arguments);  // the driver only reads them
    const auto queue = static_cast<StreamHandle>(stream);
    const bool has_attributes = Vendor::needs_attributes(context_->device(), shape);
    const auto submit = [&] {
        if (has_attributes)
            return Vendor::launch_with_attributes(*context_, function_, entry_, shape, values, queue);
        return context_->api().launch_kernel(
            function_, shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y, shape.block.z,
            static_cast<unsigned>(shape.dynamic_shared_bytes), queue, values, nullptr);
    };
    const auto enter_and_submit = [&] {
        const auto scope = context_->make_current();
        return submit();
    };
    Result result = Vendor::kLaunchReportsOtherContext ? submit() : enter_and_submit();
    // Asking for the current context before every launch would cost more than the check of its result:
    // where none, or another's, is current in this thread the driver rejects the launch and has done nothing.
    if constexpr (Vendor::kLaunchReportsOtherContext) {
        if (Vendor::is_other_context(result)) [[unlikely]] {
            result = enter_and_submit();
        }
    }
    if (result != kSuccess) [[unlikely]]
        fail_launch(result, has_attributes ? Vendor::kAttributeLaunchCall : Call::launch_kernel, shape);
    if (Capture* const capture = Capture::current()) [[unlikely]]
        capture->keep(shared_from_this());
}

template <class Vendor>
void LoadedModule<Vendor>::fail_launch(Result result, const char* call, const LaunchShape& shape) const {
    const Limits& limits = context_->info().limits;
    std::string what = "launching '" + entry_ + "' " + context_->place() + " with a grid of " +
                       text(shape.grid) + " blocks of " + text(shape.block) + " threads";
    if (shape.cluster != Dim3{}) what += " in clusters of " + text(shape.cluster);
    what += formatted(" and {} + {} bytes of static and dynamic shared memory", info_.static_shared_bytes,
                      shape.dynamic_shared_bytes);
    if (shape.block.count() > static_cast<std::uint64_t>(info_.max_threads_per_block)) {
        what += formatted("; this kernel takes at most {} threads per block", info_.max_threads_per_block);
    }
    const std::size_t allowed = std::max(
        dynamic_shared_.load(std::memory_order_relaxed),
        static_cast<std::size_t>(std::max<std::int64_t>(
            limits.shared_bytes_per_block - static_cast<std::int64_t>(info_.static_shared_bytes), 0)));
    if (shape.dynamic_shared_bytes > allowed)
        what += formatted("; it was allowed {} bytes of dynamic shared memory", allowed);
    what += Vendor::launch_hint(shape);
    context_->api().fail(result, call, what);
}

template <class Vendor>
ModuleVariable LoadedModule<Vendor>::variable(const std::string& name) const {
    if (first_) return first_->variable(name);
    const DeclaredVariable* const known = find_variable(variables_, name);
    const Api& api = context_->api();
    const auto scope = context_->make_current();
    typename Vendor::DevicePointer address{};
    std::size_t bytes = 0;
    const Result result =
        api.module_get_global(&address, &bytes, module_, known ? known->symbol.c_str() : name.c_str());
    if (result == kErrorNotFound) fail_no_variable(entry_, name, variables_);
    api.check(result, Call::module_get_global);
    return {reinterpret_cast<void*>(address), bytes};
}

template <class Vendor>
std::optional<int> LoadedModule<Vendor>::blocks_per_multiprocessor(const LaunchShape& shape) const {
    const auto scope = context_->make_current();
    const Api& api = context_->api();
    int blocks = 0;
    api.check(api.occupancy_blocks(&blocks, function_, static_cast<int>(shape.block.count()),
                                   shape.dynamic_shared_bytes),
              Call::occupancy_blocks);
    return blocks;
}

}  // namespace kiln::gpu
