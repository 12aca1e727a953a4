// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver without Kiln, opened by the benchmark itself: the set-up that an application with CUDA has
// already done, and the driver calls that Kiln is compared with.
#pragma once

#include <cstddef>
#include <string>

#include "base/dynamic_library.h"
#include "device/cuda_api.h"

namespace kiln::bench {

/// Makes the device's primary context current in this thread. Stays open for the rest of the process. Throws
/// DeviceError.
class BareCuda {
  public:
    explicit BareCuda(int ordinal);

    struct Loaded {
        cuda::ModuleHandle module = nullptr;
        cuda::FunctionHandle function = nullptr;
    };
    /// Loads a cubin from memory, including its function, so that the first launch loads nothing.
    Loaded load(const void* cubin, const char* entry) const;
    /// Queues a copy within the device's memory. stream: a CUstream.
    void copy(void* destination, const void* source, std::size_t bytes, void* stream) const;

    decltype(cuda::Api::launch_kernel) launch_kernel = nullptr;

  private:
    decltype(cuda::Api::module_load_data) module_load_data_ = nullptr;
    decltype(cuda::Api::module_get_function) module_get_function_ = nullptr;
    decltype(cuda::Api::function_load) function_load_ = nullptr;
    cuda::Result (*copy_)(cuda::DevicePointer, cuda::DevicePointer, std::size_t,
                          cuda::StreamHandle) = nullptr;
};

/// Throws DeviceError when `result` is an error.
void check(cuda::Result result, const char* call);

}  // namespace kiln::bench
