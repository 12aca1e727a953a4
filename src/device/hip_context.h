// SPDX-License-Identifier: Apache-2.0
//
// One opened HIP device: its information and a stream for copies. Shared by the driver object and its
// modules. HIP keeps a current device per thread; the device's context itself needs no reference.
#pragma once

#include <kiln/device.h>

#include <mutex>

#include "device/hip_api.h"

namespace kiln::hip {

class Context {
  public:
    /// Throws DeviceError.
    Context(const Api& runtime, DeviceInfo device_info);
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    const Api& api() const { return api_; }
    const DeviceInfo& info() const { return info_; }
    /// For copies and fills; made at the first of them. Throws DeviceError.
    StreamHandle copy_stream() const;

    /// Makes the device current in this thread and leaves it so. Every use of the runtime begins with it.
    void make_current() const {
        int current = -1;
        if (api_.get_device(&current) == kSuccess && current == info_.ordinal) return;
        api_.check(api_.set_device(info_.ordinal), "hipSetDevice");
    }
    /// The same for destructors: false when the runtime is gone, and with it all there was to free.
    bool try_make_current() const noexcept { return api_.set_device(info_.ordinal) == kSuccess; }

    /// "on device 0 (AMD Instinct MI250X)"
    std::string place() const;

  private:
    const Api& api_;
    DeviceInfo info_;
    mutable std::once_flag copy_stream_once_;
    mutable StreamHandle copy_stream_ = nullptr;
};

}  // namespace kiln::hip
