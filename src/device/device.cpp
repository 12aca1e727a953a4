// SPDX-License-Identifier: Apache-2.0
//
// The public handles over Driver, and the choice of a driver by backend.
#include <kiln/device.h>
#include <kiln/error.h>

#include <utility>

#include "device/capture.h"
#include "device/driver.h"
#include "format/format.h"

namespace kiln {
namespace {

std::shared_ptr<Driver> open_driver(Backend backend, int ordinal, ContextRef context) {
    if (!context.is_primary() && backend != Backend::cuda)
        throw UsageError("a context can be given for the backend cuda only: " + std::string(name(backend)) +
                         " has none; use ContextRef::primary()");
    switch (backend) {
        case Backend::cuda:
            return open_cuda_device(ordinal, context);
        case Backend::hip:
            return open_hip_device(ordinal);
        case Backend::host:
            break;
    }
    return open_host_device(ordinal);
}

std::string label(Backend backend) {
    return backend == Backend::cuda ? "CUDA" : backend == Backend::hip ? "HIP" : "host";
}

Driver& checked(const std::shared_ptr<Driver>& driver, const char* what) {
    if (!driver)
        throw UsageError(std::string("This ") + what +
                         " belongs to no device: it was default-constructed or moved from.");
    return *driver;
}

void check_size(std::size_t asked, std::size_t offset, std::size_t there) {
    if (offset <= there && asked <= there - offset) return;
    throw UsageError(formatted("A copy of {} bytes{} does not fit a buffer of {} bytes.", asked,
                               offset == 0 ? "" : formatted(", {} behind the start,", offset), there));
}

// A driver would give up the capture, and say so only when it ends.
void refuse_in_capture(const char* what) {
    if (Capture::current() == nullptr) return;
    throw UsageError(std::string(what) +
                     " can't happen while launches are captured into a graph; do it before or "
                     "after Graph::capture.");
}

// The driver of what is queued on this stream. Throws UsageError.
Driver& checked_for(const StreamRef& stream, const std::shared_ptr<Driver>& driver, const char* what) {
    refuse_in_capture(what);
    if (const char* const problem = stream_problem(stream, *driver))
        throw UsageError(std::string(what) + " is not possible: the stream " + problem + ".");
    return *driver;
}

}  // namespace

const char* stream_problem(const StreamRef& stream, const Driver& driver) {
    if (stream.is_native()) {
        const bool is_default = stream.handle() == StreamRef::legacy_default().handle() ||
                                stream.handle() == StreamRef::per_thread_default().handle();
        return driver.info().backend == Backend::host && !is_default
                   ? "was made from a handle of CUDA's or HIP's, which the host backend does not have"
                   : nullptr;
    }
    if (stream.driver() == nullptr)
        return "is empty (default-constructed or moved from); take one from the service or its device";
    return is_same_device(stream.driver(), driver)
               ? nullptr
               : "belongs to another device; take one from the service or its device";
}

Buffer::Buffer(std::shared_ptr<Driver> driver, std::size_t bytes)
    : DeviceRange(std::move(driver), nullptr, bytes) {
    if (bytes_ == 0) return;
    refuse_in_capture("Allocating memory");
    data_ = checked(driver_, "buffer").allocate(bytes_);
}
Buffer::Buffer(Buffer&& other) noexcept
    : DeviceRange(std::move(other.driver_), std::exchange(other.data_, nullptr),
                  std::exchange(other.bytes_, 0)) {}
Buffer& Buffer::operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    std::swap(driver_, moved.driver_);
    std::swap(data_, moved.data_);
    std::swap(bytes_, moved.bytes_);
    return *this;
}
Buffer::~Buffer() {
    if (data_ != nullptr) driver_->release(data_);
}

void DeviceRange::copy_from(std::span<const std::byte> source, std::size_t offset_bytes) {
    check_size(source.size(), offset_bytes, bytes_);
    if (source.empty()) return;
    refuse_in_capture("A copy");
    driver_->copy_to_device(static_cast<std::byte*>(data_) + offset_bytes, source.data(), source.size());
}
void DeviceRange::copy_to(std::span<std::byte> destination, std::size_t offset_bytes) const {
    check_size(destination.size(), offset_bytes, bytes_);
    if (destination.empty()) return;
    refuse_in_capture("A copy");
    driver_->copy_from_device(destination.data(), static_cast<std::byte*>(data_) + offset_bytes,
                              destination.size());
}
void DeviceRange::fill(std::uint32_t word) {
    refuse_in_capture("Filling a buffer");
    if (bytes_ != 0) driver_->fill(data_, word, bytes_);
}

void DeviceRange::copy_from_async(std::span<const std::byte> source, StreamRef stream,
                                  std::size_t offset_bytes) {
    check_size(source.size(), offset_bytes, bytes_);
    if (source.empty()) return;
    Driver& driver = checked_for(stream, driver_, "An asynchronous copy");
    driver.queue_copy_to_device(static_cast<std::byte*>(data_) + offset_bytes, source.data(), source.size(),
                                stream.handle());
}
void DeviceRange::copy_to_async(std::span<std::byte> destination, StreamRef stream,
                                std::size_t offset_bytes) const {
    check_size(destination.size(), offset_bytes, bytes_);
    if (destination.empty()) return;
    Driver& driver = checked_for(stream, driver_, "An asynchronous copy");
    driver.queue_copy_from_device(destination.data(), static_cast<std::byte*>(data_) + offset_bytes,
                                  destination.size(), stream.handle());
}
void DeviceRange::fill_async(std::uint32_t word, StreamRef stream) {
    if (bytes_ == 0) return;
    Driver& driver = checked_for(stream, driver_, "An asynchronous fill");
    driver.queue_fill(data_, word, bytes_, stream.handle());
}

void detail::DestroyHandle::operator()(void* handle) const noexcept { (driver.get()->*destroy)(handle); }

Stream::Stream(std::shared_ptr<Driver> driver, int priority) {
    void* const made = checked(driver, "stream").create_stream(priority);
    handle_ = detail::DriverHandle(made, {std::move(driver), &Driver::destroy_stream});
}

void Stream::synchronize() const {
    refuse_in_capture("Waiting for a stream");
    checked(driver(), "stream").synchronize(handle());
}

Event::Event(std::shared_ptr<Driver> driver) {
    void* const made = checked(driver, "event").create_event();
    handle_ = detail::DriverHandle(made, {std::move(driver), &Driver::destroy_event});
}

void Event::record(StreamRef stream) {
    checked(driver(), "event");
    checked_for(stream, driver(), "Recording an event").record(handle_.get(), stream.handle());
}
void StreamRef::wait(const Event& event) const {
    checked(event.driver(), "event");
    checked_for(*this, event.driver(), "A stream's wait").queue_wait(handle_, event.handle_.get());
}
void Event::synchronize() const {
    refuse_in_capture("Waiting for an event");
    checked(driver(), "event").synchronize_event(handle_.get());
}
double Event::elapsed_ms_since(const Event& start) const {
    checked(start.driver(), "event");
    return checked(driver(), "event").elapsed_ms(start.handle_.get(), handle_.get());
}

void Driver::observe(std::shared_ptr<AccessObserver>) {
    throw UsageError("Accesses to memory can be observed on the host backend only; this is " +
                     label(info().backend) + ".");
}

Device Device::open(Backend backend, int ordinal, ContextRef context) {
    try {
        return Device(open_driver(backend, ordinal, context));
    } catch (const DeviceError& error) {
        std::string reason;
        const auto devices = list(backend, &reason);
        if (devices.empty()) {
            throw DeviceError("There is no " + label(backend) +
                                  " device: " + (reason.empty() ? error.what() : reason) +
                                  (reason.ends_with('.') ? "" : ".") + " The host backend needs none.",
                              error.call(), error.code());
        }
        if (ordinal >= 0 && static_cast<std::size_t>(ordinal) < devices.size()) throw;
        std::string there;
        for (const auto& device : devices)
            there += formatted("{}{} ({})", there.empty() ? "" : ", ", device.ordinal, device.name);
        throw DeviceError(formatted("There is no {} device {}; there is {}.", label(backend), ordinal, there),
                          error.call(), error.code());
    }
}

std::vector<DeviceInfo> Device::list(Backend backend, std::string* reason) {
    switch (backend) {
        case Backend::cuda:
            return list_cuda_devices(reason);
        case Backend::hip:
            return list_hip_devices(reason);
        case Backend::host:
            break;
    }
    return list_host_devices(reason);
}

int Device::current(Backend backend) {
    switch (backend) {
        case Backend::cuda:
            return current_cuda_device();
        case Backend::hip:
            return current_hip_device();
        case Backend::host:
            break;
    }
    return 0;
}

PriorityRange Device::priorities() const { return checked(driver_, "device").priorities(); }
const DeviceInfo& Device::info() const { return checked(driver_, "device").info(); }
Target Device::target() const { return {info().backend, info().arch, info().limits}; }
bool Device::is_capturing(StreamRef stream) const {
    return Capture::current() != nullptr || checked(driver_, "device").is_capturing(stream.handle());
}
std::size_t Device::free_bytes() const { return checked(driver_, "device").free_bytes(); }

}  // namespace kiln
