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
#include "format/format.h"

namespace kiln::gpu {

/// "on device 0 (NVIDIA H200)"
inline std::string place(const DeviceInfo& info) {
    return formatted("on device {} ({})", info.ordinal, info.name);
}

/// While it lives, a device's context is current in this thread; then again what was current before, where that was
/// another one. False: the library is gone.
template <class DeviceContext>
class Scope {
  public:
    Scope(const DeviceContext& context, bool is_entered, typename DeviceContext::Previous previous)
        : context_(context), is_entered_(is_entered), previous_(previous) {}
    ~Scope() {
        if (is_entered_) context_.leave(previous_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    explicit operator bool() const { return is_entered_; }

  private:
    const DeviceContext& context_;
    const bool is_entered_;
    const typename DeviceContext::Previous previous_;
};

template <class Vendor>
class Context {
  public:
    using Api = typename Vendor::Api;
    using Call = typename Api::Call;
    using DeviceContext = typename Vendor::DeviceContext;

    /// native: of the application; nullptr: the device's own. Throws DeviceError.
    Context(const Api& opened, DeviceInfo device_info, void* native)
        : api_(opened), info_(std::move(device_info)), device_(api_, info_, native) {}
    ~Context() {
        if (copy_stream_ == nullptr) return;
        if (const auto scope = try_make_current()) static_cast<void>(api_.stream_destroy(copy_stream_));
    }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    const Api& api() const { return api_; }
    const DeviceInfo& info() const { return info_; }
    const DeviceContext& device() const { return device_; }
    std::string place() const { return gpu::place(info_); }

    using Scope = gpu::Scope<DeviceContext>;

    /// Makes the device current in this thread, and what was current before at the end of the scope; where nothing was,
    /// the device stays current. About ten nanoseconds when it already is. Every use of the table begins with it;
    /// launches may do without (LoadedModule::launch). Throws DeviceError.
    [[nodiscard]] Scope make_current() const {
        typename DeviceContext::Previous previous{};
        api_.check(device_.enter(previous), DeviceContext::kEnterCall);
        return Scope(device_, true, previous);
    }
    /// The same for destructors: false when the library is gone, and with it all there was to free.
    [[nodiscard]] Scope try_make_current() const noexcept {
        typename DeviceContext::Previous previous{};
        const bool is_entered = device_.enter(previous, true) == kSuccess;
        return Scope(device_, is_entered, previous);
    }

    /// For copies and fills; made at the first of them. Throws DeviceError.
    StreamHandle copy_stream() const {
        std::call_once(copy_stream_once_, [this] {
            const auto scope = make_current();
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
