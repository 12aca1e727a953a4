// SPDX-License-Identifier: Apache-2.0
//
// A kernel that was compiled for the host: the shared object, loaded from memory, and its launches.
#pragma once

#include <kiln/observe.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/file.h"
#include "device/driver.h"
#include "device/host_executor.h"
#include "kiln/host_abi.h"

namespace kiln {

/// A shared object loaded from bytes. Move-only; unloads on destruction.
class LoadedObject {
  public:
    /// Throws DeviceError with the loader's words.
    explicit LoadedObject(std::span<const std::byte> bytes);
    LoadedObject(const LoadedObject&) = delete;
    LoadedObject& operator=(const LoadedObject&) = delete;
    ~LoadedObject();

    void* handle() const { return handle_; }
    void* symbol(const char* name) const;

  private:
    // The loader knows a library by its name, here /proc/self/fd/N: N must not be given to another
    // file while the library is loaded.
    FileDescriptor file_;
    std::string name_;
    void* handle_ = nullptr;
};

class HostModule final : public Module {
  public:
    /// executor: gives the pool to run on, for as long as the module lives. observer: null unless the binary
    /// was compiled to report its accesses. Throws DeviceError.
    HostModule(const Binary& binary, const DeviceInfo& device, std::optional<std::uint64_t> seed,
               std::function<HostExecutor&()> executor, std::shared_ptr<AccessObserver> observer = nullptr);

    const FunctionInfo& info() const override { return info_; }
    void allow_dynamic_shared(std::size_t bytes) override { check_shared(bytes); }
    void launch(const LaunchShape& shape, void* const* arguments, void* stream) const override;
    std::optional<int> blocks_per_multiprocessor(const LaunchShape&) const override { return std::nullopt; }
    void* function_handle() const override { return reinterpret_cast<void*>(kernel_->run); }
    void* module_handle() const override { return object_.handle(); }

  private:
    void check_shared(std::size_t dynamic_bytes) const;
    void check(const LaunchShape& shape) const;
    void launch_observed(const BlockPlan& plan) const;

    const LoadedObject object_;
    const std::string name_;
    const Limits limits_;
    const std::optional<std::uint64_t> seed_;
    const std::function<HostExecutor&()> executor_;
    const std::shared_ptr<AccessObserver> observer_;
    const Binary binary_;  ///< empty without an observer
    const kiln_host::Kernel* kernel_ = nullptr;
    FunctionInfo info_;
};

}  // namespace kiln
