// SPDX-License-Identifier: Apache-2.0
//
// LoadedKernel: what a Kernel handle shares: the variant, its module, and what is known of its build.
#pragma once

#include <kiln/build.h>
#include <kiln/device.h>
#include <kiln/kernel.h>
#include <kiln/template.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/profiler_ranges.h"
#include "device/driver.h"
#include "service/launch_checks.h"
#include "service/tensor_map_arguments.h"

namespace kiln {

/// A kernel of a variant behind its first one.
struct NextKernel {
    std::shared_ptr<Module> module;
    LaunchShape shape;                   ///< all but the grid
    std::vector<std::size_t> arguments;  ///< their places among the template's, where tensor maps follow
    std::optional<int> blocks_per_multiprocessor;  ///< of a cooperative one, where the device has a limit
};

class LoadedKernel {
  public:
    /// others: of the kernels behind the first, in order. validates: launches ask the driver about their pointers and streams. ranges: of launches; may be null.
    LoadedKernel(Variant variant, std::shared_ptr<Driver> driver, std::shared_ptr<Module> module,
                 std::vector<std::shared_ptr<Module>> others, BinaryKind kind, BuildInfo info, bool validates,
                 std::shared_ptr<const ProfilerRanges> ranges);

    /// arguments: Variant::arguments(); tensor maps, and null for tensors that the variant does not have, are added here.
    void launch(StreamRef stream, void* const* arguments) const { launch(stream, arguments, nullptr); }
    /// grid: of the first kernel, what Variant::grid() gives for these sizes; for callers that keep it.
    void launch(StreamRef stream, void* const* arguments, const Dim3& grid) const {
        launch(stream, arguments, &grid);
    }
    /// What a handle launches. Throws UsageError for an empty one.
    static const LoadedKernel& of(const AnyKernel& kernel) { return kernel.state(); }
    /// Throws UsageError unless these types fit the kernel's declaration. A set of types that passed
    /// is remembered by its address, so that an in-memory look-up pays one comparison.
    void check_arguments(std::span<const ArgumentType> types) const;

    const Variant& variant() const { return variant_; }
    const BuildInfo& info() const { return info_; }
    const Module& module() const { return *module_; }
    const std::shared_ptr<Driver>& driver() const { return driver_; }

  private:
    void launch(StreamRef stream, void* const* arguments, const Dim3* grid) const;
    /// All but the grid. Throws UsageError for what can't be had.
    void apply(const LaunchOptions& options, LaunchShape& shape) const;
    /// all: the template's arguments, with its tensor maps; given: those that callers pass.
    void launch_in_order(const LaunchShape& shape, void* const* all, void* const* given, void* stream) const;
    void launch_completed(const LaunchShape& shape, void* const* arguments, void* stream) const;
    /// Of tensors to variables of the module.
    void queue_copies(void* const* arguments, void* stream) const;
    /// Throws VariantError where the grid has more blocks than run at once.
    /// blocks: of one multiprocessor; nullopt: any number.
    void check_cooperative(std::size_t kernel, Dim3 grid, std::optional<int> blocks) const;

    const Variant variant_;
    const std::shared_ptr<Driver> driver_;
    const std::shared_ptr<Module> module_;
    std::vector<NextKernel> others_;  ///< in order
    std::vector<std::size_t>
        own_arguments_;  ///< of the first, where they are not all: as NextKernel::arguments
    const BuildInfo info_;
    const TensorMapArguments tensor_maps_;
    const LaunchChecks checks_;
    const bool has_copies_;       ///< of tensors to variables of the module
    const bool passes_as_given_;  ///< nothing is added to what callers pass
    const bool validates_;
    const std::shared_ptr<const ProfilerRanges> ranges_;
    mutable std::recursive_mutex launching_;  ///< copies to variables, or several kernels
    mutable std::once_flag has_found_variables_;
    mutable std::vector<ModuleVariable> variables_;  ///< of variable_copies(), in their order
    LaunchShape shape_;                              ///< all but the grid
    mutable std::atomic<const ArgumentType*> checked_{nullptr};
};

/// Whether a binary of this kind waits for the kernel before it, so that its launches may overlap that one: the
/// instruction begins with sm_90. Compiled for less, it has to wait for the kernel before it, on a newer device too.
bool waits_itself(const Variant& variant, BinaryKind kind);
/// The same of a kernel with or without a `dependent` line that is true.
bool waits_itself(const Variant& variant, bool may_overlap, BinaryKind kind);

/// Throws BuildError when the binary's argument count or sizes, where the driver can tell, are not
/// those of the declaration that launches will be checked against, followed by the tensor maps.
void check_binary_arguments(const Variant& variant, const FunctionInfo& info, std::size_t kernel = 0);

}  // namespace kiln
