// SPDX-License-Identifier: Apache-2.0
//
// A loaded cubin (or PTX) with its kernel resolved, and launching it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "device/cuda_context.h"
#include "device/driver.h"

namespace kiln::cuda {

class CudaModule final : public Module {
  public:
    /// Loads the binary and resolves its kernel, so that no launch has to. Throws DeviceError.
    CudaModule(std::shared_ptr<const Context> context, const Binary& binary);
    ~CudaModule() override;
    CudaModule(const CudaModule&) = delete;
    CudaModule& operator=(const CudaModule&) = delete;

    const FunctionInfo& info() const override { return info_; }
    void allow_dynamic_shared(std::size_t bytes) override;
    void launch(const LaunchShape& shape, void* const* arguments, void* stream) const override;
    std::optional<int> blocks_per_multiprocessor(const LaunchShape& shape) const override;
    void* function_handle() const override { return function_; }
    void* module_handle() const override { return module_; }

  private:
    CudaModule(std::shared_ptr<const Context> context, ModuleHandle module);
    int attribute(FunctionAttribute which) const;
    std::optional<std::vector<std::size_t>> argument_bytes() const;
    void launch_with_attributes(const LaunchShape& shape, void** arguments, StreamHandle stream) const;
    [[noreturn]] void fail_launch(Result result, const char* call, const LaunchShape& shape) const;

    std::shared_ptr<const Context> context_;
    ModuleHandle module_;
    FunctionHandle function_ = nullptr;
    std::string entry_;
    FunctionInfo info_;
    std::mutex mutex_;                             // for raising the mark
    std::atomic<std::size_t> dynamic_shared_ = 0;  // the most that launches may ask for
};

}  // namespace kiln::cuda
