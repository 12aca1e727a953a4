// SPDX-License-Identifier: Apache-2.0
//
// CUDA devices: listing, opening, memory, streams and events.
//
// Streams are created non-blocking, so that Kiln's work never waits for, and never holds up, what the
// application does on the legacy default stream. A blocking copy or fill first waits for all work of the
// context, then runs on a private stream and waits for that: a result can be read right after its
// launch, and a buffer refilled while an earlier launch may still read it, whatever the stream.
#include <kiln/error.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "device/capture.h"
#include "device/cuda_context.h"
#include "device/cuda_graph.h"
#include "device/cuda_module.h"
#include "device/cuda_tensor_map.h"
#include "device/driver.h"

namespace kiln {
namespace cuda {
namespace {

DevicePointer address(const void* memory) { return reinterpret_cast<DevicePointer>(memory); }

std::int64_t attribute(const Api& api, DeviceHandle device, DeviceAttribute which) {
    int value = 0;
    api.check(api.device_get_attribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
}

DeviceHandle device_handle(const Api& api, int ordinal) {
    DeviceHandle device = 0;
    api.check(api.device_get(&device, ordinal), "cuDeviceGet");
    return device;
}

int device_count(const Api& api) {
    int count = 0;
    api.check(api.device_get_count(&count), "cuDeviceGetCount");
    return count;
}

// From compute capability 9.0 on, the suffix "a" gives the instructions of just this architecture (wgmma, TMA
// multicast, tcgen05), and a kernel built at run time for this device has nothing to lose by it.
std::string arch_name(std::int64_t major, std::int64_t minor) {
    return "sm_" + std::to_string(major) + std::to_string(minor) + (major >= 9 ? "a" : "");
}

DeviceInfo describe_device(const Api& api, int ordinal) {
    const DeviceHandle device = device_handle(api, ordinal);
    const auto value = [&](DeviceAttribute which) { return attribute(api, device, which); };
    char name[256] = {};
    api.check(api.device_get_name(name, sizeof(name), device), "cuDeviceGetName");
    DeviceInfo info;
    info.backend = Backend::cuda;
    info.ordinal = ordinal;
    info.name = name;
    info.arch = arch_name(value(kComputeCapabilityMajor), value(kComputeCapabilityMinor));
    info.driver = api.version;
    api.check(api.device_total_mem(&info.memory_bytes, device), "cuDeviceTotalMem");
    Limits& limits = info.limits;
    limits.threads_per_block = value(kMaxThreadsPerBlock);
    limits.warp_size = value(kWarpSize);
    limits.shared_bytes_per_block = value(kMaxSharedPerBlock);
    limits.shared_bytes_per_block_optin =
        std::max(limits.shared_bytes_per_block, value(kMaxSharedPerBlockOptin));
    limits.shared_bytes_per_multiprocessor = value(kMaxSharedPerMultiprocessor);
    limits.registers_per_block = value(kMaxRegistersPerBlock);
    limits.registers_per_multiprocessor = value(kMaxRegistersPerMultiprocessor);
    limits.threads_per_multiprocessor = value(kMaxThreadsPerMultiprocessor);
    limits.blocks_per_multiprocessor = value(kMaxBlocksPerMultiprocessor);
    limits.multiprocessors = value(kMultiprocessorCount);
    limits.l2_bytes = value(kL2CacheSize);
    limits.grid_x = value(kMaxGridX);
    limits.grid_y = value(kMaxGridY);
    limits.grid_z = value(kMaxGridZ);
    return info;
}

class CudaDriver final : public Driver {
  public:
    explicit CudaDriver(std::shared_ptr<const Context> context)
        : context_(std::move(context)), api_(context_->api()) {}

    const DeviceInfo& info() const override { return context_->info(); }

    std::size_t free_bytes() const override {
        context_->make_current();
        std::size_t free = 0, total = 0;
        api_.check(api_.mem_get_info(&free, &total), "cuMemGetInfo");
        return free;
    }

    void* allocate(std::size_t bytes) override {
        if (bytes == 0) return nullptr;
        context_->make_current();
        DevicePointer memory = 0;
        if (const Result result = api_.mem_alloc(&memory, bytes); result != kSuccess) {
            std::size_t free = 0, total = 0;
            std::string what = "asking for " + std::to_string(bytes) + " bytes " + context_->place();
            if (api_.mem_get_info(&free, &total) == kSuccess) {
                what += ", where " + std::to_string(free) + " of " + std::to_string(total) + " are free";
            }
            api_.fail(result, "cuMemAlloc", what);
        }
        return reinterpret_cast<void*>(memory);
    }

    void release(void* memory) noexcept override {
        if (memory != nullptr && context_->try_make_current()) api_.mem_free(address(memory));
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
        queued(api_.memcpy_to_device(address(destination), source, bytes, static_cast<StreamHandle>(stream)),
               "cuMemcpyHtoDAsync", "copying", bytes);
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
        queued(
            api_.memcpy_from_device(destination, address(source), bytes, static_cast<StreamHandle>(stream)),
            "cuMemcpyDtoHAsync", "copying", bytes);
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
            queued(api_.memset_d32(address(destination), word, words, queue), "cuMemsetD32Async", "filling",
                   bytes);
        for (std::size_t i = words * 4; i < bytes; ++i) {
            const auto byte = static_cast<unsigned char>(word >> 8 * (i % 4));
            queued(api_.memset_d8(address(destination) + i, byte, 1, queue), "cuMemsetD8Async", "filling",
                   bytes);
        }
    }

    void* create_stream() override {
        context_->make_current();
        StreamHandle stream = nullptr;
        api_.check(api_.stream_create(&stream, kStreamNonBlocking), "cuStreamCreate");
        return stream;
    }
    void destroy_stream(void* stream) noexcept override {
        if (stream != nullptr && context_->try_make_current()) {
            api_.stream_destroy(static_cast<StreamHandle>(stream));
        }
    }
    void synchronize(void* stream) override {
        context_->make_current();
        api_.check(api_.stream_synchronize(static_cast<StreamHandle>(stream)), "cuStreamSynchronize");
    }

    void* create_event() override {
        context_->make_current();
        EventHandle event = nullptr;
        api_.check(api_.event_create(&event, kEventDefault), "cuEventCreate");
        return event;
    }
    void destroy_event(void* event) noexcept override {
        if (event != nullptr && context_->try_make_current())
            api_.event_destroy(static_cast<EventHandle>(event));
    }
    void record(void* event, void* stream) override {
        context_->make_current();
        api_.check(api_.event_record(static_cast<EventHandle>(event), static_cast<StreamHandle>(stream)),
                   "cuEventRecord");
    }
    void queue_wait(void* stream, void* event) override {
        context_->make_current();
        api_.check(
            api_.stream_wait_event(static_cast<StreamHandle>(stream), static_cast<EventHandle>(event), 0),
            "cuStreamWaitEvent");
    }
    void synchronize_event(void* event) override {
        context_->make_current();
        api_.check(api_.event_synchronize(static_cast<EventHandle>(event)), "cuEventSynchronize");
    }
    double elapsed_ms(void* start, void* end) override {
        context_->make_current();
        float milliseconds = 0;
        api_.check(api_.event_elapsed_time(&milliseconds, static_cast<EventHandle>(start),
                                           static_cast<EventHandle>(end)),
                   "cuEventElapsedTime");
        return milliseconds;
    }

    std::shared_ptr<Module> load(const Binary& binary) override {
        return std::make_shared<CudaModule>(context_, binary);
    }

    void begin_capture(void* stream) override { cuda::begin_capture(*context_, stream); }
    std::unique_ptr<DeviceGraph> end_capture(void* stream, Capture& capture) override {
        return cuda::end_capture(context_, stream, capture.take());
    }
    void encode_tensor_map(const TensorMapLayout& layout, void* map) override {
        cuda::encode_tensor_map(*context_, layout, map);
    }

  private:
    void wait_for_all() const {
        context_->make_current();
        api_.check(api_.context_synchronize(), "cuCtxSynchronize");
    }
    void queued(Result result, const char* call, const char* doing, std::size_t bytes) const {
        if (result == kSuccess) return;
        api_.fail(result, call, doing + (" " + std::to_string(bytes)) + " bytes " + context_->place());
    }

    std::shared_ptr<const Context> context_;
    const Api& api_;
};

}  // namespace

Context::Context(const Api& driver, DeviceInfo device_info, DeviceHandle device)
    : api_(driver), info_(std::move(device_info)), device_(device) {
    int clusters = 0;  // a driver older than CUDA 11.8 does not know the question
    has_clusters_ =
        api_.device_get_attribute(&clusters, kClusterLaunch, device_) == kSuccess && clusters != 0;
    if (const Result result = api_.primary_context_retain(&context_, device_); result != kSuccess) {
        api_.fail(result, "cuDevicePrimaryCtxRetain", "opening the context " + place());
    }
    try {
        make_current();
    } catch (...) {
        api_.primary_context_release(device_);
        throw;
    }
}

Context::~Context() {
    if (!try_make_current()) return;
    if (copy_stream_ != nullptr) api_.stream_destroy(copy_stream_);
    api_.primary_context_release(device_);
}

StreamHandle Context::copy_stream() const {
    std::call_once(copy_stream_once_, [this] {
        make_current();
        api_.check(api_.stream_create(&copy_stream_, kStreamNonBlocking), "cuStreamCreate");
    });
    return copy_stream_;
}

std::string Context::place() const {
    return "on device " + std::to_string(info_.ordinal) + " (" + info_.name + ")";
}

}  // namespace cuda

std::vector<DeviceInfo> list_cuda_devices(std::string* reason) {
    const cuda::Api* api = cuda::api(reason);
    std::vector<DeviceInfo> devices;
    if (api == nullptr) return devices;
    try {
        const int count = cuda::device_count(*api);
        for (int i = 0; i < count; ++i) devices.push_back(cuda::describe_device(*api, i));
        if (count == 0 && reason != nullptr) *reason = "the driver answers: there is no device";
    } catch (const DeviceError& error) {
        devices.clear();
        if (reason != nullptr) *reason = error.what();
    }
    return devices;
}

std::shared_ptr<Driver> open_cuda_device(int ordinal) {
    std::string reason;
    const cuda::Api* api = cuda::api(&reason);
    const int count = api == nullptr ? 0 : cuda::device_count(*api);
    if (count == 0) {
        if (reason.empty()) reason = "the driver answers: there is no device";
        throw DeviceError("there is no CUDA device: " + reason, "cuInit", cuda::kErrorNoDevice);
    }
    if (ordinal < 0 || ordinal >= count) {
        std::string message = "there is no CUDA device " + std::to_string(ordinal) + "; there ";
        message += count == 1 ? "is only" : "are";
        for (const DeviceInfo& info : list_cuda_devices(nullptr)) {
            message +=
                (info.ordinal == 0 ? " " : ", ") + std::to_string(info.ordinal) + " (" + info.name + ")";
        }
        throw DeviceError(message, "cuDeviceGet", cuda::kErrorInvalidDevice);
    }
    return std::make_shared<cuda::CudaDriver>(std::make_shared<const cuda::Context>(
        *api, cuda::describe_device(*api, ordinal), cuda::device_handle(*api, ordinal)));
}

}  // namespace kiln
