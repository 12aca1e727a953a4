// SPDX-License-Identifier: Apache-2.0
//
// One service makes what all of them share; the others refer to it.
#include <kiln/device_services.h>
#include <kiln/error.h>

#include <utility>

#include "service/backends.h"

namespace kiln {

DeviceServices::DeviceServices(ServiceOptions options) : options_(std::move(options)) {
    if (!options_.context.is_primary())
        throw UsageError(
            "DeviceServices work in the devices' primary contexts, and ServiceOptions::context is another "
            "one; "
            "make a Service for it, and further ones that share its builds by Service(shares, device, "
            "context)");
}
DeviceServices::~DeviceServices() = default;

Backend DeviceServices::backend() {
    const std::lock_guard lock(mutex_);
    if (!backend_) backend_ = choose_backend(options_);
    return *backend_;
}

Service& DeviceServices::of(int device) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Service>& service = services_[device];
    if (service) return *service;
    for (const auto& [other, made] : services_) {
        if (!made) continue;
        service = std::make_unique<Service>(*made, device);
        return *service;
    }
    ServiceOptions options = options_;
    options.device = device;
    service = std::make_unique<Service>(std::move(options));
    return *service;
}

Service& DeviceServices::current() { return of(Device::current(backend())); }

}  // namespace kiln
