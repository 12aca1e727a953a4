// SPDX-License-Identifier: Apache-2.0
//
// A table of functions that stands for a vendor's library with two devices, so that the GPU device layer runs on a
// machine with neither. Device memory is the host's, work is done at once, every call is written down, and each
// can be made to fail. FakeGpu<cuda::Vendor> or FakeGpu<hip::Vendor>; one at a time.
#pragma once

#include <elf.h>
#include <kiln/build.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda_vendor.h"
#include "device/gpu_driver.h"
#include "device/hip_vendor.h"

namespace kiln::test {

/// Memory that the library knows of.
struct FakeMemory {
    const void* begin = nullptr;
    std::size_t bytes = 0;
    int ordinal = 1;        ///< of its device
    bool is_usable = true;  ///< by kernels of device 1
};

/// What the functions below work on.
struct FakeState {
    using StreamHandle = gpu::StreamHandle;

    std::vector<std::string> calls;     ///< members of the table, with what matters of their arguments
    std::map<std::string, int> errors;  ///< by member: what it answers instead
    std::map<int, int> attributes;      ///< of devices; one that is not here is not answered
    int static_shared = 0;
    std::size_t graph_nodes = 1;
    std::vector<FakeMemory> memory;
    std::map<StreamHandle, int> stream_contexts;  ///< of CUDA; of HIP: devices
    std::map<StreamHandle, bool> green_streams;
    std::string arch = "gfx90a:sramecc+:xnack-";
    std::array<float, 9> variable{};  ///< of all modules, as filter::weights and as bias

    int call(const char* member, const std::string& arguments = {}) {
        calls.push_back(arguments.empty() ? member : std::string(member) + " " + arguments);
        const auto found = errors.find(member);
        return found == errors.end() ? 0 : found->second;
    }
    std::size_t count(const std::string& call) const {
        return static_cast<std::size_t>(std::count(calls.begin(), calls.end(), call));
    }
    /// Where the call stands in the list; its end when it is not there.
    std::size_t position(const std::string& call) const {
        return static_cast<std::size_t>(std::find(calls.begin(), calls.end(), call) - calls.begin());
    }
};

inline FakeState* fake = nullptr;
/// The device whose context is current in this thread; -1: none, which HIP does not know.
inline thread_local int fake_current = -1;

template <class Handle>
Handle fake_handle(std::uintptr_t number) {
    return reinterpret_cast<Handle>(number);
}

inline void fill_own(cuda::Api& api) {
    using namespace cuda;
    api.get_error_name = [](Result, const char** name) { return *name = "FAKE_ERROR", 0; };
    api.get_error_string = [](Result, const char** text) { return *text = "a fake error", 0; };
    api.device_get = [](DeviceHandle* device, int ordinal) { return *device = ordinal, 0; };
    api.primary_context_retain = [](ContextHandle* context, DeviceHandle device) {
        *context = fake_handle<ContextHandle>(static_cast<std::uintptr_t>(device) + 1);
        return fake->call("primary_context_retain");
    };
    api.primary_context_release = [](DeviceHandle) { return fake->call("primary_context_release"); };
    api.context_get_current = [](ContextHandle* context) {
        *context = fake_handle<ContextHandle>(static_cast<std::uintptr_t>(fake_current + 1));
        return 0;
    };
    api.context_set_current = [](ContextHandle context) {
        fake_current = static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1;
        return fake->call("make_current");
    };
    api.context_get_device = [](DeviceHandle* device) {
        *device = fake_current % 10;  // of two contexts of one device: 1 and 11
        return fake->call("context_get_device");
    };
    api.function_load = [](FunctionHandle) { return fake->call("function_load"); };
    api.function_set_attribute = [](FunctionHandle, FunctionAttribute which, int value) {
        return fake->call("function_set_attribute", std::to_string(which) + "=" + std::to_string(value));
    };
    api.launch_kernel_ex = [](const LaunchConfig* config, FunctionHandle, void**, void**) {
        std::string attributes;
        for (unsigned i = 0; i < config->attribute_count; ++i) {
            const LaunchAttribute& one = config->attributes[i];
            const auto& window = one.value.access_policy;
            switch (one.id) {
                case kLaunchClusterDimension:
                    attributes += " cluster " + std::to_string(one.value.cluster.x);
                    break;
                case kLaunchProgrammaticSerialization:
                    attributes += " overlap " + std::to_string(one.value.programmatic_serialization);
                    break;
                case kLaunchCooperative:
                    attributes += " cooperative " + std::to_string(one.value.cooperative);
                    break;
                case kLaunchPriority:
                    attributes += " priority " + std::to_string(one.value.priority);
                    break;
                case kLaunchAccessPolicyWindow:
                    attributes += " window " + std::to_string(window.bytes) + " " +
                                  std::to_string(window.hit_ratio).substr(0, 4) + " " +
                                  std::to_string(window.hit) + std::to_string(window.miss);
                    break;
            }
        }
        return fake->call("launch_kernel_ex", std::to_string(config->grid_x) + " x " +
                                                  std::to_string(config->block_x) + attributes);
    };
    api.stream_get_context = [](StreamHandle stream, ContextHandle* context) {
        *context = fake_handle<ContextHandle>(static_cast<std::uintptr_t>(fake->stream_contexts[stream]));
        return fake->call("stream_get_context");
    };
    api.stream_get_green_context = [](StreamHandle stream, GreenContextHandle* context) {
        *context = fake->green_streams[stream] ? fake_handle<GreenContextHandle>(9) : nullptr;
        return 0;
    };
    api.graph_instantiate = [](GraphExecHandle* graph, GraphHandle, unsigned long long) {
        *graph = fake_handle<GraphExecHandle>(77);
        return fake->call("graph_instantiate");
    };
}

inline void fill_own(hip::Api& api) {
    using namespace hip;
    api.get_error_name = [](Result) { return "FAKE_ERROR"; };
    api.get_error_string = [](Result) { return "a fake error"; };
    api.device_get_properties = [](void* properties, int) {
        std::strcpy(static_cast<char*>(properties) + kArchNameOffset, fake->arch.c_str());
        return 0;
    };
    api.get_device = [](int* device) { return *device = std::max(fake_current, 0), 0; };
    api.set_device = [](int device) {
        fake_current = device;
        return fake->call("make_current");
    };
    api.stream_get_device = [](StreamHandle stream, int* device) {
        return *device = fake->stream_contexts[stream], 0;
    };
    api.graph_instantiate = [](GraphExecHandle* graph, GraphHandle, GraphNodeHandle*, char*, std::size_t) {
        *graph = fake_handle<GraphExecHandle>(77);
        return fake->call("graph_instantiate");
    };
}

/// Fills a table; the tables' functions work on `state` for as long as this lives.
template <class Vendor>
class FakeGpu {
  public:
    using Api = typename Vendor::Api;

    FakeGpu() {
        fake = &state;
        fake_current = -1;
        state.attributes = {{Vendor::DeviceAttribute::kMaxThreadsPerBlock, 1024},
                            {Vendor::DeviceAttribute::kMaxSharedPerBlock, 49152},
                            {Vendor::DeviceAttribute::kWarpSize, 32}};
        fill_shared();
        fill_own(api);
        api.version = "FAKE 1.2";
    }
    ~FakeGpu() { fake = nullptr; }
    FakeGpu(const FakeGpu&) = delete;
    FakeGpu& operator=(const FakeGpu&) = delete;

    /// A driver of device 1. The limits that matter are those given, not what the table answers.
    std::shared_ptr<Driver> open(std::int64_t shared_bytes = 49152, std::int64_t shared_bytes_optin = 49152,
                                 void* context = nullptr) {
        DeviceInfo info;
        info.backend = Vendor::kBackend;
        info.ordinal = 1;
        info.name = "Fake 9";
        info.arch = "fake_9";
        info.limits.shared_bytes_per_block = shared_bytes;
        info.limits.shared_bytes_per_block_optin = shared_bytes_optin;
        return std::make_shared<gpu::DeviceDriver<Vendor>>(
            std::make_shared<const gpu::Context<Vendor>>(api, info, context));
    }

    /// The smallest file that may go to a driver, of the kind that this vendor loads.
    static Binary binary() {
        struct {
            Elf64_Ehdr header{};
            Elf64_Shdr section{};
        } file;
        std::memcpy(file.header.e_ident, ELFMAG, SELFMAG);
        file.header.e_ident[EI_CLASS] = ELFCLASS64;
        file.header.e_ident[EI_DATA] = ELFDATA2LSB;
        file.header.e_shoff = sizeof(Elf64_Ehdr);
        file.header.e_shnum = 1;
        file.header.e_shentsize = sizeof(Elf64_Shdr);
        const auto* const bytes = reinterpret_cast<const std::byte*>(&file);
        Binary binary;
        binary.kind = Vendor::kBackend == Backend::cuda ? BinaryKind::cubin : BinaryKind::code_object;
        binary.entry = "scale";
        binary.bytes = std::vector<std::byte>(bytes, bytes + sizeof(file));
        return binary;
    }

    FakeState state;
    Api api;

  private:
    void fill_shared();
};

// Lambdas with auto take the types of the table's member that they are assigned to.
template <class Vendor>
void FakeGpu<Vendor>::fill_shared() {
    using namespace gpu;
    api.device_get_count = [](int* count) { return *count = 2, fake->call("device_get_count"); };
    api.device_get_name = [](char* name, int bytes, int device) {
        std::snprintf(name, static_cast<std::size_t>(bytes), "Fake %d", device);
        return fake->call("device_get_name");
    };
    api.device_total_mem = [](std::size_t* bytes, int) { return *bytes = 1 << 20, 0; };
    api.device_get_attribute = [](int* value, auto which, int) {
        const auto found = fake->attributes.find(which);
        if (found == fake->attributes.end()) return 1;
        *value = found->second;
        return 0;
    };
    api.synchronize = [] { return fake->call("synchronize"); };
    api.mem_get_info = [](std::size_t* free, std::size_t* total) { return *free = 5, *total = 10, 0; };
    api.mem_alloc = [](auto* memory, std::size_t bytes) {
        const int result = fake->call("mem_alloc", std::to_string(bytes));
        if (result == 0) *memory = Vendor::address(std::malloc(bytes));
        return result;
    };
    api.mem_free = [](auto memory) {
        std::free(reinterpret_cast<void*>(memory));
        return fake->call("mem_free");
    };
    api.memcpy_to_device = [](auto to, auto from, std::size_t bytes, StreamHandle) {
        const int result = fake->call("memcpy_to_device");
        if (result == 0) std::memcpy(reinterpret_cast<void*>(to), from, bytes);
        return result;
    };
    api.memcpy_from_device = [](void* to, auto from, std::size_t bytes, StreamHandle) {
        const int result = fake->call("memcpy_from_device");
        if (result == 0) std::memcpy(to, reinterpret_cast<void*>(from), bytes);
        return result;
    };
    api.memcpy_on_device = [](auto to, auto from, std::size_t bytes, StreamHandle) {
        std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
        return fake->call("memcpy_on_device", std::to_string(bytes));
    };
    api.memset_d8 = [](auto to, unsigned char value, std::size_t count, StreamHandle) {
        std::memset(reinterpret_cast<void*>(to), value, count);
        return fake->call("memset_d8");
    };
    api.memset_d32 = [](auto to, auto value, std::size_t count, StreamHandle) {
        for (std::size_t i = 0; i < count; ++i)
            std::memcpy(reinterpret_cast<char*>(to) + 4 * i, &value, sizeof value);
        return fake->call("memset_d32");
    };
    api.stream_create = [](StreamHandle* stream, unsigned flags) {
        *stream = fake_handle<StreamHandle>(50 + fake->count("stream_create 1"));
        return fake->call("stream_create", std::to_string(flags));
    };
    api.stream_create_with_priority = [](StreamHandle* stream, unsigned flags, int priority) {
        *stream = fake_handle<StreamHandle>(49);
        return fake->call("stream_create_with_priority",
                          std::to_string(flags) + " " + std::to_string(priority));
    };
    api.priority_range = [](int* least, int* greatest) { return *least = 0, *greatest = -5, 0; };
    api.pointer_get_attribute = [](void* data, PointerAttribute which, auto pointer) -> Result {
        fake->call("pointer_get_attribute");
        const auto* const address = reinterpret_cast<const char*>(pointer);
        for (const FakeMemory& one : fake->memory) {
            const auto* const begin = static_cast<const char*>(one.begin);
            if (address < begin || address >= begin + one.bytes) continue;
            if (which == kPointerDeviceOrdinal) return *static_cast<int*>(data) = one.ordinal, 0;
            if (which == kPointerMemoryType) return *static_cast<unsigned*>(data) = 2, 0;
            if (!one.is_usable) return kErrorInvalidValue;
            return *static_cast<const void**>(data) = address, kSuccess;
        }
        return kErrorInvalidValue;
    };
    api.stream_destroy = [](StreamHandle) { return fake->call("stream_destroy"); };
    api.stream_synchronize = [](StreamHandle) { return fake->call("stream_synchronize"); };
    api.stream_wait_event = [](StreamHandle, EventHandle, unsigned) {
        return fake->call("stream_wait_event");
    };
    api.event_create = [](EventHandle* event, unsigned) {
        *event = fake_handle<EventHandle>(60);
        return fake->call("event_create");
    };
    api.event_destroy = [](EventHandle) { return fake->call("event_destroy"); };
    api.event_record = [](EventHandle, StreamHandle) { return fake->call("event_record"); };
    api.event_synchronize = [](EventHandle) { return fake->call("event_synchronize"); };
    api.event_elapsed_time = [](float* ms, EventHandle, EventHandle) {
        return *ms = 1.5F, fake->call("event_elapsed_time");
    };
    api.module_load_data = [](ModuleHandle* module, const void*) {
        *module = fake_handle<ModuleHandle>(30);
        return fake->call("module_load_data");
    };
    api.module_unload = [](ModuleHandle) { return fake->call("module_unload"); };
    api.module_get_function = [](FunctionHandle* function, ModuleHandle, const char* name) {
        *function = fake_handle<FunctionHandle>(40);
        return fake->call("module_get_function", name);
    };
    api.module_get_global = [](auto* address, std::size_t* bytes, ModuleHandle, const char* name) -> Result {
        *address = Vendor::address(fake->variable.data());
        *bytes = sizeof(fake->variable);
        fake->call("module_get_global", name);
        return std::string(name) == "_ZN6filter7weightsE" || std::string(name) == "bias" ? kSuccess
                                                                                         : kErrorNotFound;
    };
    api.function_get_attribute = [](int* value, FunctionAttribute which, FunctionHandle) {
        *value = which == kFunctionRegisters     ? 42
                 : which == kFunctionLocalBytes  ? 8
                 : which == kFunctionSharedBytes ? fake->static_shared
                                                 : 256;
        return 0;
    };
    api.occupancy_blocks = [](int* blocks, FunctionHandle, int threads, std::size_t) {
        return *blocks = 2048 / threads, 0;
    };
    // A launch of CUDA fails where another context is current; one of HIP goes to the current device.
    api.launch_kernel = [](FunctionHandle, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned,
                           unsigned, unsigned shared, StreamHandle, void** arguments, void**) {
        if (Vendor::kBackend == Backend::cuda && fake_current != 1) return 201;
        const std::string grid = std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z);
        return fake->call("launch_kernel", grid + " x " + std::to_string(threads) + " shared " +
                                               std::to_string(shared) + " argument " +
                                               std::to_string(*static_cast<int*>(arguments[0])) + " device " +
                                               std::to_string(fake_current));
    };
    api.stream_begin_capture = [](StreamHandle, CaptureMode mode) {
        return fake->call("stream_begin_capture", std::to_string(mode));
    };
    api.stream_end_capture = [](StreamHandle, GraphHandle* graph) {
        *graph = fake_handle<GraphHandle>(70);
        return fake->call("stream_end_capture");
    };
    api.graph_get_nodes = [](GraphHandle, GraphNodeHandle*, std::size_t* count) {
        return *count = fake->graph_nodes, 0;
    };
    api.graph_destroy = [](GraphHandle) { return fake->call("graph_destroy"); };
    api.graph_launch = [](GraphExecHandle, StreamHandle) { return fake->call("graph_launch"); };
    api.graph_exec_destroy = [](GraphExecHandle) { return fake->call("graph_exec_destroy"); };
}

}  // namespace kiln::test
