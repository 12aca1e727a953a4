// SPDX-License-Identifier: Apache-2.0
//
// DeviceServices: the services of a process that works with several devices. They share compiles, the cache's tiers and
// what is in flight, so that devices of one architecture compile each variant once.
//
//     kiln::DeviceServices services;
//     cudaSetDevice(1);
//     kiln::Service& service = services.current();
#pragma once

#include <kiln/service.h>
#include <kiln/version.h>

#include <atomic>

namespace kiln {
inline namespace KILN_ABI {

/// Thread-safe. In a child of fork() it starts over, as a Service does: of() opens the device again.
class DeviceServices {
  public:
    /// options: of all of them, but for `device`. A context that is not the primary one is a UsageError: it belongs to
    /// one device; Service's constructors take one. Nothing is opened yet.
    explicit DeviceServices(ServiceOptions options = {});
    /// Ends all of them, as ~Service; until their last build has ended, callbacks of builds may call of().
    ~DeviceServices();
    DeviceServices(const DeviceServices&) = delete;
    DeviceServices& operator=(const DeviceServices&) = delete;

    /// The service of this device, which is opened at the first call; it lives as long as this object. Throws what the
    /// constructors of Service throw.
    Service& of(int device);
    /// The service of the device that is current in the calling thread (Device::current).
    Service& current();
    /// The backend of all services: what the options ask for by name, architecture or observer, else CUDA if a
    /// device answers, else HIP, else the host. Throws UsageError for options that ask for none.
    Backend backend();

  private:
    struct State;
    State& state();

    const ServiceOptions options_;
    std::atomic<State*> state_;
};

}  // namespace KILN_ABI
}  // namespace kiln
