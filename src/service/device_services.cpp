// SPDX-License-Identifier: Apache-2.0
//
// One service makes what all of them share; the others refer to it.
#include <kiln/device_services.h>
#include <kiln/error.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/fork.h"
#include "service/backends.h"

namespace kiln {

struct DeviceServices::State {
    bool is_of_this_process() const { return generation == fork_generation(); }

    const unsigned generation = fork_generation();
    std::mutex mutex;
    std::map<int, std::unique_ptr<Service>> services;
    std::optional<Backend> backend;
};

DeviceServices::DeviceServices(ServiceOptions options) : options_(std::move(options)), state_(nullptr) {
    if (!options_.context.is_primary())
        throw UsageError(
            "DeviceServices work in the devices' primary contexts, and ServiceOptions::context is another "
            "one; "
            "make a Service for it, and further ones that share its builds by Service(shares, device, "
            "context)");
    state_ = new State;
}
DeviceServices::~DeviceServices() { end_state_of_this_process(state_); }

DeviceServices::State& DeviceServices::state() {
    return state_of_this_process(state_, [](const State&) { return std::make_unique<State>(); });
}

Backend DeviceServices::backend() {
    State& state = this->state();
    const std::lock_guard lock(state.mutex);
    if (!state.backend) state.backend = choose_backend(options_);
    return *state.backend;
}

Service& DeviceServices::of(int device) {
    State& state = this->state();
    const std::lock_guard lock(state.mutex);
    std::unique_ptr<Service>& service = state.services[device];
    if (service) return *service;
    for (const auto& [other, made] : state.services) {
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
