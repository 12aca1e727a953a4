// SPDX-License-Identifier: Apache-2.0
//
// HIP devices: listing, opening, memory, streams and events. Streams and blocking copies behave as in
// cuda_device.cpp. Compiled everywhere, run on no AMD device so far.
#include <kiln/error.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "device/capture.h"
#include "device/driver.h"
#include "device/hip_context.h"
#include "device/hip_graph.h"
#include "device/hip_module.h"

namespace kiln {
namespace hip {
namespace {

int device_count(const Api& api) {
    int count = 0;
    api.check(api.device_get_count(&count), "hipGetDeviceCount");
    return count;
}

DeviceInfo describe_device(const Api& api, int ordinal) {
    char name[256] = {};
    api.check(api.device_get_name(name, sizeof(name), ordinal), "hipDeviceGetName");
    DeviceInfo info;
    info.backend = Backend::hip;
    info.ordinal = ordinal;
    info.name = name;
    info.arch = arch_name(api, ordinal);
    info.driver = api.version;
    if (info.name.empty()) info.name = info.arch;  // some releases leave it out
    api.check(api.device_total_mem(&info.memory_bytes, ordinal), "hipDeviceTotalMem");
    info.limits = arch_limits(Backend::hip, info.arch).value_or(Limits{});
    // Not every release answers every question; the architecture's table stands in.
    const auto ask = [&](std::int64_t& limit, DeviceAttribute which) {
        int value = 0;
        if (api.device_get_attribute(&value, which, ordinal) == kSuccess && value > 0) limit = value;
    };
    Limits& limits = info.limits;
    ask(limits.threads_per_block, kMaxThreadsPerBlock);
    ask(limits.warp_size, kWarpSize);
    ask(limits.shared_bytes_per_block, kMaxSharedPerBlock);
    limits.shared_bytes_per_block_optin = limits.shared_bytes_per_block;  // there is nothing to opt in to
    ask(limits.shared_bytes_per_multiprocessor, kMaxSharedPerMultiprocessor);
    ask(limits.registers_per_block, kMaxRegistersPerBlock);
    limits.registers_per_multiprocessor =
        std::max(limits.registers_per_multiprocessor, limits.registers_per_block);
    ask(limits.threads_per_multiprocessor, kMaxThreadsPerMultiprocessor);
    ask(limits.blocks_per_multiprocessor, kMaxBlocksPerMultiprocessor);
    ask(limits.multiprocessors, kMultiprocessorCount);
    ask(limits.l2_bytes, kL2CacheSize);
    ask(limits.grid_x, kMaxGridX);
    ask(limits.grid_y, kMaxGridY);
    ask(limits.grid_z, kMaxGridZ);
    return info;
}

class HipDriver final : public Driver {
  public:
    explicit HipDriver(std::shared_ptr<const Context> context)
        : context_(std::move(context)), api_(context_->api()) {}

    const DeviceInfo& info() const override { return context_->info(); }

    std::size_t free_bytes() const override {
        context_->make_current();
        std::size_t free = 0, total = 0;
        api_.check(api_.mem_get_info(&free, &total), "hipMemGetInfo");
        return free;
    }

    void* allocate(std::size_t bytes) override {
        if (bytes == 0) return nullptr;
        context_->make_current();
        void* memory = nullptr;
        if (const Result result = api_.mem_alloc(&memory, bytes); result != kSuccess) {
            std::size_t free = 0, total = 0;
            std::string what = "asking for " + std::to_string(bytes) + " bytes " + context_->place();
            if (api_.mem_get_info(&free, &total) == kSuccess) {
                what += ", where " + std::to_string(free) + " of " + std::to_string(total) + " are free";
            }
            api_.fail(result, "hipMalloc", what);
        }
        return memory;
    }

    void release(void* memory) noexcept override {
        if (memory != nullptr && context_->try_make_current()) static_cast<void>(api_.mem_free(memory));
    }

    void copy_to_device(void* destination, const void* source, std::size_t bytes) override {
        if (bytes == 0) return;
        wait_for_all();
        queue_copy_to_device(destination, source, bytes, context_->copy_stream());
        synchronize(context_->copy_stream());
    }
    void queue_copy_to_device(void* destination, const void* source, std::size_t bytes,
                              void* stream) override {
        context_->make_current();
        // The source is only read; ROCm 5 and 6 declare it without const.
        queued(api_.memcpy_to_device(destination, const_cast<void*>(source), bytes,
                                     static_cast<StreamHandle>(stream)),
               "hipMemcpyHtoDAsync", "copying", bytes);
    }

    void copy_from_device(void* destination, const void* source, std::size_t bytes) override {
        if (bytes == 0) return;
        wait_for_all();
        queue_copy_from_device(destination, source, bytes, context_->copy_stream());
        synchronize(context_->copy_stream());
    }
    void queue_copy_from_device(void* destination, const void* source, std::size_t bytes,
                                void* stream) override {
        context_->make_current();
        queued(api_.memcpy_from_device(destination, const_cast<void*>(source), bytes,
                                       static_cast<StreamHandle>(stream)),
               "hipMemcpyDtoHAsync", "copying", bytes);
    }

    void fill(void* destination, std::uint32_t word, std::size_t bytes) override {
        if (bytes == 0) return;
        wait_for_all();
        queue_fill(destination, word, bytes, context_->copy_stream());
        synchronize(context_->copy_stream());
    }
    void queue_fill(void* destination, std::uint32_t word, std::size_t bytes, void* stream) override {
        context_->make_current();
        const auto queue = static_cast<StreamHandle>(stream);
        const std::size_t words = bytes / 4;
        if (words != 0)
            queued(api_.memset_d32(destination, static_cast<int>(word), words, queue), "hipMemsetD32Async",
                   "filling", bytes);
        for (std::size_t i = words * 4; i < bytes; ++i) {
            const auto byte = static_cast<unsigned char>(word >> 8 * (i % 4));
            queued(api_.memset_d8(static_cast<char*>(destination) + i, byte, 1, queue), "hipMemsetD8Async",
                   "filling", bytes);
        }
    }

    void* create_stream() override {
        context_->make_current();
        StreamHandle stream = nullptr;
        api_.check(api_.stream_create(&stream, kStreamNonBlocking), "hipStreamCreateWithFlags");
        return stream;
    }
    void destroy_stream(void* stream) noexcept override {
        if (stream != nullptr && context_->try_make_current()) {
            static_cast<void>(api_.stream_destroy(static_cast<StreamHandle>(stream)));
        }
    }
    void synchronize(void* stream) override {
        context_->make_current();
        api_.check(api_.stream_synchronize(static_cast<StreamHandle>(stream)), "hipStreamSynchronize");
    }

    void* create_event() override {
        context_->make_current();
        EventHandle event = nullptr;
        api_.check(api_.event_create(&event, kEventDefault), "hipEventCreateWithFlags");
        return event;
    }
    void destroy_event(void* event) noexcept override {
        if (event != nullptr && context_->try_make_current()) {
            static_cast<void>(api_.event_destroy(static_cast<EventHandle>(event)));
        }
    }
    void record(void* event, void* stream) override {
        context_->make_current();
        api_.check(api_.event_record(static_cast<EventHandle>(event), static_cast<StreamHandle>(stream)),
                   "hipEventRecord");
    }
    void queue_wait(void* stream, void* event) override {
        context_->make_current();
        api_.check(
            api_.stream_wait_event(static_cast<StreamHandle>(stream), static_cast<EventHandle>(event), 0),
            "hipStreamWaitEvent");
    }
    void synchronize_event(void* event) override {
        context_->make_current();
        api_.check(api_.event_synchronize(static_cast<EventHandle>(event)), "hipEventSynchronize");
    }
    double elapsed_ms(void* start, void* end) override {
        context_->make_current();
        float milliseconds = 0;
        api_.check(api_.event_elapsed_time(&milliseconds, static_cast<EventHandle>(start),
                                           static_cast<EventHandle>(end)),
                   "hipEventElapsedTime");
        return milliseconds;
    }

    std::shared_ptr<Module> load(const Binary& binary) override {
        return std::make_shared<HipModule>(context_, binary);
    }

    void begin_capture(void* stream) override { hip::begin_capture(*context_, stream); }
    std::unique_ptr<DeviceGraph> end_capture(void* stream, Capture& capture) override {
        return hip::end_capture(context_, stream, capture.take());
    }
    void encode_tensor_map(const TensorMapLayout& layout, void*) override {
        throw UsageError("The tensor map " + layout.name +
                         " can't be made: AMD's devices have no TMA, and so no tensor maps.");
    }

  private:
    void wait_for_all() const {
        context_->make_current();
        api_.check(api_.device_synchronize(), "hipDeviceSynchronize");
    }
    void queued(Result result, const char* call, const char* doing, std::size_t bytes) const {
        if (result == kSuccess) return;
        api_.fail(result, call, doing + (" " + std::to_string(bytes)) + " bytes " + context_->place());
    }

    std::shared_ptr<const Context> context_;
    const Api& api_;
};

}  // namespace

Context::Context(const Api& runtime, DeviceInfo device_info) : api_(runtime), info_(std::move(device_info)) {
    make_current();
}

Context::~Context() {
    if (copy_stream_ != nullptr && try_make_current()) static_cast<void>(api_.stream_destroy(copy_stream_));
}

StreamHandle Context::copy_stream() const {
    std::call_once(copy_stream_once_, [this] {
        make_current();
        api_.check(api_.stream_create(&copy_stream_, kStreamNonBlocking), "hipStreamCreateWithFlags");
    });
    return copy_stream_;
}

std::string Context::place() const {
    return "on device " + std::to_string(info_.ordinal) + " (" + info_.name + ")";
}

}  // namespace hip

std::vector<DeviceInfo> list_hip_devices(std::string* reason) {
    const hip::Api* api = hip::api(reason);
    std::vector<DeviceInfo> devices;
    if (api == nullptr) return devices;
    try {
        const int count = hip::device_count(*api);
        for (int i = 0; i < count; ++i) devices.push_back(hip::describe_device(*api, i));
        if (count == 0 && reason != nullptr) *reason = "the runtime answers: there is no device";
    } catch (const DeviceError& error) {
        devices.clear();
        if (reason != nullptr) *reason = error.what();
    }
    return devices;
}

std::shared_ptr<Driver> open_hip_device(int ordinal) {
    std::string reason;
    const hip::Api* api = hip::api(&reason);
    const int count = api == nullptr ? 0 : hip::device_count(*api);
    if (count == 0) {
        if (reason.empty()) reason = "the runtime answers: there is no device";
        throw DeviceError("there is no HIP device: " + reason, "hipInit", hip::kErrorNoDevice);
    }
    if (ordinal < 0 || ordinal >= count) {
        std::string message = "there is no HIP device " + std::to_string(ordinal) + "; there ";
        message += count == 1 ? "is only" : "are";
        for (const DeviceInfo& info : list_hip_devices(nullptr)) {
            message +=
                (info.ordinal == 0 ? " " : ", ") + std::to_string(info.ordinal) + " (" + info.name + ")";
        }
        throw DeviceError(message, "hipSetDevice", hip::kErrorInvalidDevice);
    }
    return std::make_shared<hip::HipDriver>(
        std::make_shared<const hip::Context>(*api, hip::describe_device(*api, ordinal)));
}

}  // namespace kiln
