// SPDX-License-Identifier: Apache-2.0
//
// One opened GPU: its information, what makes it current in a thread, and a stream for copies. Shared by the driver
// object, its modules and its graphs; the last of them closes it.
//
// Vendor is cuda::Vendor or hip::Vendor: the table of functions (Api) and, as static members, what differs between
// the two. Calls that both have go through the table; nothing is virtual below Driver and Module.
#pragma once

#include <kiln/device.h>

#include <mutex>
#include <string>
#include <utility>

#include "device/gpu_api.h"

namespace kiln::gpu {

/// "on device 0 (NVIDIA H200)"
inline std::string place(const DeviceInfo& info) {
    return "on device " + std::to_string(info.ordinal) + " (" + info.name + ")";
}

template <class Vendor>
class Context {
  public:
    using Api = typename Vendor::Api;
    using Call = typename Api::Call;
    using DeviceContext = typename Vendor::DeviceContext;

    /// Makes the device current in this thread. Throws DeviceError.
    Context(const Api& opened, DeviceInfo device_info)
        : api_(opened), info_(std::move(device_info)), device_(api_, info_) {}
    ~Context() {
        if (copy_stream_ != nullptr && try_make_current())
            static_cast<void>(api_.stream_destroy(copy_stream_));
    }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    const Api& api() const { return api_; }
    const DeviceInfo& info() const { return info_; }
    const DeviceContext& device() const { return device_; }
    std::string place() const { return gpu::place(info_); }

    /// Makes the device current in this thread and leaves it so. About ten nanoseconds when it already is. Every
    /// use of the table begins with it; launches may do without (LoadedModule::launch).
    void make_current() const { device_.make_current(); }
    /// The same for destructors: false when the library is gone, and with it all there was to free.
    bool try_make_current() const noexcept { return device_.try_make_current(); }

    /// For copies and fills; made at the first of them. Throws DeviceError.
    StreamHandle copy_stream() const {
        std::call_once(copy_stream_once_, [this] {
            make_current();
            api_.check(api_.stream_create(&copy_stream_, kStreamNonBlocking), Call::stream_create);
        });
        return copy_stream_;
    }

  private:
    const Api& api_;
    DeviceInfo info_;
    DeviceContext device_;
    mutable std::once_flag copy_stream_once_;
    mutable StreamHandle copy_stream_ = nullptr;
};

}  // namespace kiln::gpu
