// SPDX-License-Identifier: Apache-2.0
//
// Devices of CUDA and HIP: listing, opening, memory, streams, events and captures. One implementation over the
// table of functions of either; cuda_vendor.h and hip_vendor.h hold what differs.
//
// Streams are created non-blocking, so that Kiln's work never waits for, and never holds up, what the
// application does on the legacy default stream. A blocking copy or fill first waits for all work of the
// context, then runs on a private stream and waits for that: a result can be read right after its
// launch, and a buffer refilled while an earlier launch may still read it, whatever the stream.
#pragma once

#include <kiln/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/capture.h"
#include "device/driver.h"
#include "device/gpu_context.h"
#include "device/gpu_graph.h"
#include "device/gpu_module.h"
#include "format/format.h"

namespace kiln::gpu {

template <class Vendor>
class DeviceDriver final : public Driver {
  public:
    explicit DeviceDriver(std::shared_ptr<const Context<Vendor>> context)
        : context_(std::move(context)), api_(context_->api()) {}

    const DeviceInfo& info() const override { return context_->info(); }
    const void* context() const override { return context_->device().native(); }

    std::size_t free_bytes() const override {
        const auto scope = context_->make_current();
        std::size_t free = 0, total = 0;
        api_.check(api_.mem_get_info(&free, &total), Call::mem_get_info);
        return free;
    }

    void* allocate(std::size_t bytes) override {
        if (bytes == 0) return nullptr;
        const auto scope = context_->make_current();
        typename Vendor::DevicePointer memory{};
        if (const Result result = api_.mem_alloc(&memory, bytes); result != kSuccess) {
            std::size_t free = 0, total = 0;
            std::string what = formatted("asking for {} bytes {}", bytes, context_->place());
            if (api_.mem_get_info(&free, &total) == kSuccess) {
                what += formatted(", where {} of {} are free", free, total);
            }
            api_.fail(result, Call::mem_alloc, what);
        }
        return reinterpret_cast<void*>(memory);
    }

    void* allocate_async(std::size_t bytes, void* stream) override {
        if (bytes == 0 || api_.mem_alloc_async == nullptr || api_.mem_free_async == nullptr)
            return allocate(bytes);
        const auto scope = context_->make_current();
        typename Vendor::DevicePointer memory{};
        // A device without memory pools says so; where there is not enough memory, allocate() says how much there is.
        if (api_.mem_alloc_async(&memory, bytes, static_cast<StreamHandle>(stream)) != kSuccess)
            return allocate(bytes);
        return reinterpret_cast<void*>(memory);
    }
    void release_async(void* memory, void* stream) noexcept override {
        if (memory == nullptr) return;
        const auto scope = context_->try_make_current();
        if (!scope) return;
        // What allocate() gave is not of a pool.
        if (api_.mem_free_async == nullptr ||
            api_.mem_free_async(address(memory), static_cast<StreamHandle>(stream)) != kSuccess)
            static_cast<void>(api_.mem_free(address(memory)));
    }

    void release(void* memory) noexcept override {
        if (memory == nullptr) return;
        if (const auto scope = context_->try_make_current())
            static_cast<void>(api_.mem_free(address(memory)));
    }

    void copy_to_device(void* destination, const void* source, std::size_t bytes) override {
        if (bytes == 0) return;
        wait_for_all();
        queue_copy_to_device(destination, source, bytes, context_->copy_stream());
        synchronize(context_->copy_stream());
    }
    void queue_copy_to_device(void* destination, const void* source, std::size_t bytes,
                              void* stream) override {
        const auto scope = context_->make_current();
        queued(api_.memcpy_to_device(address(destination), const_cast<void*>(source), bytes,
                                     static_cast<StreamHandle>(stream)),
               Call::memcpy_to_device, "copying", bytes);
    }

    void copy_from_device(void* destination, const void* source, std::size_t bytes) override {
        if (bytes == 0) return;
        wait_for_all();
        queue_copy_from_device(destination, source, bytes, context_->copy_stream());
        synchronize(context_->copy_stream());
    }
    void queue_copy_from_device(void* destination, const void* source, std::size_t bytes,
                                void* stream) override {
        const auto scope = context_->make_current();
        queued(
            api_.memcpy_from_device(destination, address(source), bytes, static_cast<StreamHandle>(stream)),
            Call::memcpy_from_device, "copying", bytes);
    }

    void fill(void* destination, std::uint32_t word, std::size_t bytes) override {
        if (bytes == 0) return;
        wait_for_all();
        queue_fill(destination, word, bytes, context_->copy_stream());
        synchronize(context_->copy_stream());
    }
    void queue_fill(void* destination, std::uint32_t word, std::size_t bytes, void* stream) override {
        const auto scope = context_->make_current();
        const auto queue = static_cast<StreamHandle>(stream);
        const std::size_t words = bytes / 4;
        if (words != 0)
            queued(api_.memset_d32(address(destination), static_cast<typename Vendor::FillWord>(word), words,
                                   queue),
                   Call::memset_d32, "filling", bytes);
        for (std::size_t i = words * 4; i < bytes; ++i) {
            const auto byte = static_cast<unsigned char>(word >> 8 * (i % 4));
            queued(api_.memset_d8(address(static_cast<char*>(destination) + i), byte, 1, queue),
                   Call::memset_d8, "filling", bytes);
        }
    }

    void queue_copy_on_device(void* destination, const void* source, std::size_t bytes,
                              void* stream) override {
        const auto scope = context_->make_current();
        queued(api_.memcpy_on_device(address(destination), address(source), bytes,
                                     static_cast<StreamHandle>(stream)),
               Call::memcpy_on_device, "copying", bytes);
    }

    std::string pointer_problem(const void* memory, std::size_t bytes) const override {
        const auto scope = context_->make_current();
        const auto* const last = static_cast<const std::byte*>(memory) + (bytes == 0 ? 0 : bytes - 1);
        const std::string problem = address_problem(memory);
        if (!problem.empty() || last == memory || address_problem(last).empty()) return problem;
        return formatted("has fewer than the {} bytes that this tensor needs: the last of them {}", bytes,
                         address_problem(last));
    }
    std::string native_stream_problem(void* stream) const override {
        const auto scope = context_->make_current();
        return Vendor::stream_problem(*context_, static_cast<StreamHandle>(stream));
    }

    PriorityRange priorities() const override {
        const auto scope = context_->make_current();
        PriorityRange range;
        api_.check(api_.priority_range(&range.least, &range.greatest), Call::priority_range);
        return range;
    }
    void* create_stream(int priority) override {
        const auto scope = context_->make_current();
        StreamHandle stream = nullptr;
        if (priority == 0)
            api_.check(api_.stream_create(&stream, kStreamNonBlocking), Call::stream_create);
        else
            api_.check(api_.stream_create_with_priority(&stream, kStreamNonBlocking, priority),
                       Call::stream_create_with_priority);
        return stream;
    }
    void destroy_stream(void* stream) noexcept override {
        if (stream == nullptr) return;
        if (const auto scope = context_->try_make_current()) {
            static_cast<void>(api_.stream_destroy(static_cast<StreamHandle>(stream)));
        }
    }
    void synchronize(void* stream) override {
        const auto scope = context_->make_current();
        api_.check(api_.stream_synchronize(static_cast<StreamHandle>(stream)), Call::stream_synchronize);
    }

    void* create_event() override {
        const auto scope = context_->make_current();
        EventHandle event = nullptr;
        api_.check(api_.event_create(&event, kEventDefault), Call::event_create);
        return event;
    }
    void destroy_event(void* event) noexcept override {
        if (event == nullptr) return;
        if (const auto scope = context_->try_make_current())
            static_cast<void>(api_.event_destroy(static_cast<EventHandle>(event)));
    }
    void record(void* event, void* stream) override {
        const auto scope = context_->make_current();
        api_.check(api_.event_record(static_cast<EventHandle>(event), static_cast<StreamHandle>(stream)),
                   Call::event_record);
    }
    void queue_wait(void* stream, void* event) override {
        const auto scope = context_->make_current();
        api_.check(
            api_.stream_wait_event(static_cast<StreamHandle>(stream), static_cast<EventHandle>(event), 0),
            Call::stream_wait_event);
    }
    void synchronize_event(void* event) override {
        const auto scope = context_->make_current();
        api_.check(api_.event_synchronize(static_cast<EventHandle>(event)), Call::event_synchronize);
    }
    double elapsed_ms(void* start, void* end) override {
        const auto scope = context_->make_current();
        float milliseconds = 0;
        api_.check(api_.event_elapsed_time(&milliseconds, static_cast<EventHandle>(start),
                                           static_cast<EventHandle>(end)),
                   Call::event_elapsed_time);
        return milliseconds;
    }

    std::shared_ptr<Module> load(const Binary& binary) override {
        return std::make_shared<LoadedModule<Vendor>>(context_, binary);
    }

    bool is_capturing(void* stream) override {
        const auto scope = context_->make_current();
        int status = 0;
        // While another stream is captured, the legacy default stream may not even be asked.
        return api_.stream_is_capturing(static_cast<StreamHandle>(stream), &status) != kSuccess ||
               status != 0;
    }
    void begin_capture(void* stream) override {
        const auto scope = context_->make_current();
        api_.check(api_.stream_begin_capture(static_cast<StreamHandle>(stream), kCaptureThreadLocal),
                   Call::stream_begin_capture);
    }
    std::unique_ptr<DeviceGraph> end_capture(void* stream, Capture& capture) override {
        const auto scope = context_->make_current();
        const CapturedGraph<Vendor> captured(api_, static_cast<StreamHandle>(stream));
        if (captured.is_empty()) return nullptr;
        return std::make_unique<InstantiatedGraph<Vendor>>(context_, captured, capture.take());
    }
    void encode_tensor_map(const TensorMapLayout& layout, void* map) override {
        Vendor::encode_tensor_map(*context_, layout, map);
    }

  private:
    using Api = typename Vendor::Api;
    using Call = typename Api::Call;

    static typename Vendor::DevicePointer address(const void* memory) { return Vendor::address(memory); }

    // The driver says of which memory kernels of this context can make use, pinned memory of the host and other devices'
    // with access between peers included.
    std::string address_problem(const void* memory) const {
        if (api_.pointer_get_attribute == nullptr) return {};
        typename Vendor::DevicePointer usable{};
        if (api_.pointer_get_attribute(&usable, kPointerDevicePointer, address(memory)) != kErrorInvalidValue)
            return {};
        unsigned type = 0;
        int ordinal = -1;
        const bool is_known =
            api_.pointer_get_attribute(&type, kPointerMemoryType, address(memory)) == kSuccess &&
            api_.pointer_get_attribute(&ordinal, kPointerDeviceOrdinal, address(memory)) == kSuccess;
        if (!is_known) {
            int pageable = 0;
            const int device = Vendor::device_handle(api_, info().ordinal);
            const Result asked =
                api_.device_get_attribute(&pageable, Vendor::DeviceAttribute::kPageableMemoryAccess, device);
            return asked == kSuccess && pageable != 0
                       ? ""
                       : "is no memory of a device: it is the host's, or nobody's";
        }
        if (ordinal != info().ordinal)
            return formatted("belongs to device {}, which device {} has no access to", ordinal,
                             info().ordinal);
        return formatted("belongs to another context of device {}", ordinal);
    }
    void wait_for_all() const {
        const auto scope = context_->make_current();
        api_.check(api_.synchronize(), Call::synchronize);
    }
    void queued(Result result, const char* call, const char* doing, std::size_t bytes) const {
        if (result == kSuccess) return;
        api_.fail(result, call, formatted("{} {} bytes {}", doing, bytes, context_->place()));
    }

    std::shared_ptr<const Context<Vendor>> context_;
    const Api& api_;
};

template <class Vendor>
int device_count(const typename Vendor::Api& api) {
    int count = 0;
    api.check(api.device_get_count(&count), Vendor::Api::Call::device_get_count);
    return count;
}

/// Throws DeviceError.
template <class Vendor>
DeviceInfo describe_device(const typename Vendor::Api& api, int ordinal) {
    using Call = typename Vendor::Api::Call;
    using Attribute = typename Vendor::DeviceAttribute;
    const int device = Vendor::device_handle(api, ordinal);
    char name[256] = {};
    api.check(api.device_get_name(name, sizeof(name), device), Call::device_get_name);
    DeviceInfo info;
    info.backend = Vendor::kBackend;
    info.ordinal = ordinal;
    info.name = name;
    info.arch = Vendor::arch(api, device);
    info.driver = api.version;
    if (info.name.empty()) info.name = info.arch;  // some releases of ROCm leave it out
    api.check(api.device_total_mem(&info.memory_bytes, device), Call::device_total_mem);
    Limits& limits = info.limits;
    limits = Vendor::limits_to_assume(info.arch);
    const auto ask = [&](std::int64_t& limit, Attribute which) { Vendor::ask(api, device, which, limit); };
    ask(limits.threads_per_block, Attribute::kMaxThreadsPerBlock);
    ask(limits.warp_size, Attribute::kWarpSize);
    ask(limits.shared_bytes_per_block, Attribute::kMaxSharedPerBlock);
    ask(limits.shared_bytes_per_multiprocessor, Attribute::kMaxSharedPerMultiprocessor);
    ask(limits.registers_per_block, Attribute::kMaxRegistersPerBlock);
    ask(limits.threads_per_multiprocessor, Attribute::kMaxThreadsPerMultiprocessor);
    ask(limits.blocks_per_multiprocessor, Attribute::kMaxBlocksPerMultiprocessor);
    ask(limits.multiprocessors, Attribute::kMultiprocessorCount);
    ask(limits.l2_bytes, Attribute::kL2CacheSize);
    ask(limits.grid_x, Attribute::kMaxGridX);
    ask(limits.grid_y, Attribute::kMaxGridY);
    ask(limits.grid_z, Attribute::kMaxGridZ);
    Vendor::ask_further(api, device, limits);
    return info;
}

/// "the driver answers: there is no device"
template <class Vendor>
std::string no_device() {
    return std::string("the ") + Vendor::kLibrary + " answers: there is no device";
}

/// See list_cuda_devices(). api: nullptr, with the reason given already, where there is no library that works.
template <class Vendor>
std::vector<DeviceInfo> list_devices(const typename Vendor::Api* api, std::string* reason) {
    std::vector<DeviceInfo> devices;
    if (api == nullptr) return devices;
    try {
        const int count = device_count<Vendor>(*api);
        for (int i = 0; i < count; ++i) devices.push_back(describe_device<Vendor>(*api, i));
        if (count == 0 && reason != nullptr) *reason = no_device<Vendor>();
    } catch (const DeviceError& error) {
        devices.clear();
        if (reason != nullptr) *reason = error.what();
    }
    return devices;
}

/// See open_cuda_device(). api: nullptr, with a reason, where there is no library that works. native: a context of the
/// application's on that device, or nullptr.
template <class Vendor>
std::shared_ptr<Driver> open_device(const typename Vendor::Api* api, std::string reason, int ordinal,
                                    void* native) {
    const std::string a_device = std::string(Vendor::kName) + " device";
    const int count = api == nullptr ? 0 : device_count<Vendor>(*api);
    if (count == 0) {
        if (reason.empty()) reason = no_device<Vendor>();
        throw DeviceError("there is no " + a_device + ": " + reason, Vendor::Api::Call::init, kErrorNoDevice);
    }
    if (ordinal < 0 || ordinal >= count) {
        std::string message = formatted("there is no {} {}; there ", a_device, ordinal);
        message += count == 1 ? "is only" : "are";
        for (const DeviceInfo& info : list_devices<Vendor>(api, nullptr)) {
            message += formatted("{}{} ({})", info.ordinal == 0 ? " " : ", ", info.ordinal, info.name);
        }
        throw DeviceError(message, Vendor::kOpenCall, kErrorInvalidDevice);
    }
    return std::make_shared<DeviceDriver<Vendor>>(
        std::make_shared<const Context<Vendor>>(*api, describe_device<Vendor>(*api, ordinal), native));
}

}  // namespace kiln::gpu
