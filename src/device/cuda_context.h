// SPDX-License-Identifier: Apache-2.0
//
// One reference to a device's primary context: the context that the CUDA runtime and other libraries
// in the process use as well, so their memory and streams work with Kiln's and the other way round.
// Shared by the driver object and its modules; the last one releases it.
#pragma once

#include <kiln/device.h>

#include <memory>
#include <mutex>

#include "device/cuda_api.h"

namespace kiln::cuda {

class Context {
  public:
    /// Retains the primary context. Throws DeviceError.
    Context(const Api& driver, DeviceInfo device_info, DeviceHandle device);
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    const Api& api() const { return api_; }
    const DeviceInfo& info() const { return info_; }
    bool has_clusters() const { return has_clusters_; }
    /// Whether a kernel may be started while the one before it still runs: compute capability 9.0 like clusters.
    bool can_overlap() const { return has_clusters_ && api_.launch_kernel_ex != nullptr; }
    /// For copies and fills; made at the first of them. Throws DeviceError.
    StreamHandle copy_stream() const;

    /// Makes the context current in this thread and leaves it so, as the CUDA runtime does. About ten
    /// nanoseconds when it already is. Every use of the driver but a launch
    /// begins with it.
    void make_current() const {
        ContextHandle current = nullptr;
        if (api_.context_get_current(&current) == kSuccess && current == context_) return;
        api_.check(api_.context_set_current(context_), "cuCtxSetCurrent");
    }
    /// The same for destructors: false when the driver is gone, and with it all there was to free.
    bool try_make_current() const noexcept { return api_.context_set_current(context_) == kSuccess; }

    /// "on device 0 (NVIDIA H200)"
    std::string place() const;

  private:
    const Api& api_;
    DeviceInfo info_;
    DeviceHandle device_;
    ContextHandle context_ = nullptr;
    mutable std::once_flag copy_stream_once_;
    mutable StreamHandle copy_stream_ = nullptr;
    bool has_clusters_ = false;
};

}  // namespace kiln::cuda
