// SPDX-License-Identifier: Apache-2.0
//
// One service makes what all of them share; the others refer to it.
#include <kiln/device_services.h>
#include <kiln/error.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "service/absolute_paths.h"
#include "service/backends.h"

namespace kiln {

struct DeviceServices::State {
    State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() { finish_builds(); }

    bool is_of_this_process() const { return generation == fork_generation(); }

    const unsigned generation = fork_generation();
    std::mutex mutex;
    struct Opened {
        int device;
        std::unique_ptr<Service> service;
    };
    std::vector<Opened> services;  // few; in the order in which they were opened
    std::optional<Backend> backend;

  private:
    /// A callback of one service's build may ask for any service, and may open another one. So all builds end before
    /// the first service goes.
    void finish_builds() {
        for (std::size_t i = 0;; ++i) {
            Service* service = nullptr;
            {
                const std::lock_guard lock(mutex);
                if (i == services.size()) return;
                service = services[i].service.get();
            }
            service->finish_builds();  // without the lock, which the callback needs
        }
    }
};

DeviceServices::DeviceServices(ServiceOptions options)
    : options_(with_absolute_paths(std::move(options))), state_(nullptr) {
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
    const auto known = std::ranges::find(state.services, device, &State::Opened::device);
    if (known != state.services.end()) return *known->service;
    std::unique_ptr<Service> service;
    if (state.services.empty()) {
        ServiceOptions options = options_;
        options.device = device;
        service = std::make_unique<Service>(std::move(options));
    } else {
        service = std::make_unique<Service>(*state.services.front().service, device);
    }
    return *state.services.emplace_back(State::Opened{device, std::move(service)}).service;
}

Service& DeviceServices::current() { return of(Device::current(backend())); }

}  // namespace kiln
