// SPDX-License-Identifier: Apache-2.0
//
// A loaded AMD code object with its kernel resolved, and launching it.
#pragma once

#include <memory>

#include "device/driver.h"
#include "device/hip_context.h"

namespace kiln::hip {

class HipModule final : public Module {
  public:
    /// Loads the code object and resolves its kernel. Throws DeviceError.
    HipModule(std::shared_ptr<const Context> context, const Binary& binary);
    ~HipModule() override;
    HipModule(const HipModule&) = delete;
    HipModule& operator=(const HipModule&) = delete;

    const FunctionInfo& info() const override { return info_; }
    void allow_dynamic_shared(std::size_t bytes) override;
    void launch(const LaunchShape& shape, void* const* arguments, void* stream) const override;
    std::optional<int> blocks_per_multiprocessor(const LaunchShape& shape) const override;
    void* function_handle() const override { return function_; }
    void* module_handle() const override { return module_; }

  private:
    HipModule(std::shared_ptr<const Context> context, ModuleHandle module);
    int attribute(FunctionAttribute which) const;
    [[noreturn]] void fail_launch(Result result, const LaunchShape& shape) const;

    std::shared_ptr<const Context> context_;
    ModuleHandle module_;
    FunctionHandle function_ = nullptr;
    std::string entry_;
    FunctionInfo info_;
};

}  // namespace kiln::hip
