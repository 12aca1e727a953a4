// SPDX-License-Identifier: Apache-2.0
//
// A kernel that was compiled for the host: the shared object, loaded from memory, and its launches.
#pragma once

#include <dlfcn.h>
#include <kiln/build.h>
#include <kiln/observe.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/kernel_file.h"
#include "device/driver.h"
#include "device/host_executor.h"
#include "device/module_variables.h"
#include "device/static_shared.h"
#include "kiln/host_abi.h"

namespace kiln {

/// A shared object, loaded when it is asked for and unloaded on destruction.
class KernelObject {
  public:
    explicit KernelObject(Bytes bytes);
    KernelObject(const KernelObject&) = delete;
    KernelObject& operator=(const KernelObject&) = delete;
    ~KernelObject();

    /// Runs its constructors, at the first call. Throws DeviceError with the loader's words.
    void load() {
        std::call_once(loaded_, [this] { load_now(); });
    }
    void* handle() const { return handle_; }
    /// Loaded.
    const StaticShared& static_shared() const { return static_shared_; }
    void* symbol(const char* name) const { return ::dlsym(handle_, name); }
    /// Of the object's variables. Loaded; throws UsageError where there is none.
    ModuleVariable variable(const std::string& kernel, const std::string& name) const;

  private:
    void load_now();
    /// From a file in memory, which is closed again. Appends to `problems` why it can't be, and throws where the process may
    /// open no more files.
    void load_from_memory(std::string& problems);
    void load_from_directory(std::string& problems);

    KernelFile file_;
    void* handle_ = nullptr;
    std::vector<DeclaredVariable> variables_;
    StaticShared static_shared_;
    std::once_flag loaded_;
};

/// BlockPlan::seed and poison of the next launches: the usual ones, or where an order is wanted others. Thread-safe.
class ThreadOrder {
  public:
    explicit ThreadOrder(std::optional<std::uint64_t> usual) : usual_(usual) {}
    void other(int number) { others_ += number; }
    std::optional<std::uint64_t> seed() const {
        const int others = others_;
        if (others == 0) return usual_;
        return usual_.value_or(0) + static_cast<std::uint64_t>(others);
    }
    /// High for the first of the other orders, low for the second.
    std::uint64_t poison() const {
        const int others = others_;
        return others == 0 ? usual_.value_or(0) : static_cast<std::uint64_t>(others) - 1;
    }

  private:
    const std::optional<std::uint64_t> usual_;
    std::atomic<int> others_ = 0;
};

/// at_launch: the first launch in a process loads the object, so that none of its code runs in one that only builds.
enum class WhenLoaded { at_once, at_launch };

class HostModule final : public Module {
  public:
    /// executor: gives the pool to run on, for as long as the module lives. observer: null unless the binary
    /// was compiled to report its accesses. Throws DeviceError.
    HostModule(const Binary& binary, const DeviceInfo& device, std::shared_ptr<const ThreadOrder> order,
               std::function<HostExecutor&()> executor, std::shared_ptr<AccessObserver> observer = nullptr,
               WhenLoaded when = WhenLoaded::at_once);

    const FunctionInfo& info() const override { return info_; }
    void allow_dynamic_shared(std::size_t bytes) override { check_shared(bytes); }
    void launch(const LaunchShape& shape, void* const* arguments, void* stream) const override;
    /// Held, only the calling thread launches.
    Driver::LaunchLock lock_launches() const { return executor_().lock_launches(); }
    std::optional<int> blocks_per_multiprocessor(const LaunchShape&) const override { return std::nullopt; }
    void* function_handle() const override { return reinterpret_cast<void*>(kernel().run); }
    void* module_handle() const override { return static_cast<void>(kernel()), object_->handle(); }
    ModuleVariable variable(const std::string& name) const override {
        return static_cast<void>(kernel()), object_->variable(name_, name);
    }
    std::shared_ptr<Module> other(const Binary& binary, std::size_t number) const override {
        return std::shared_ptr<Module>(new HostModule(*this, binary, number));
    }

  private:
    HostModule(const HostModule& first, const Binary& binary, std::size_t number);
    void read_facts(const Binary& binary);
    const kiln_host::Kernel& kernel() const;  ///< loads it
    void check_shared(std::size_t dynamic_bytes) const;
    void check(const LaunchShape& shape) const;
    void launch_observed(const BlockPlan& plan) const;

    mutable std::once_flag loaded_;
    const std::shared_ptr<KernelObject> object_;  ///< of all kernels of the binary
    const std::string name_;
    const std::string symbol_;  ///< what it is exported as
    const Limits limits_;
    const std::shared_ptr<const ThreadOrder> order_;
    const std::function<HostExecutor&()> executor_;
    const std::shared_ptr<AccessObserver> observer_;
    const Binary binary_;  ///< empty without an observer
    mutable const kiln_host::Kernel* kernel_ = nullptr;
    FunctionInfo info_;
};

}  // namespace kiln
