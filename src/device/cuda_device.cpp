// SPDX-License-Identifier: Apache-2.0
//
// CUDA's part of GPU devices: attributes, the primary context, cubins and PTX, launch attributes, graphs.
#include <kiln/error.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/arch_facts.h"
#include "device/cuda_vendor.h"
#include "device/gpu_driver.h"
#include "format/format.h"

namespace kiln {
namespace cuda {
namespace {

using Call = Api::Call;

ModuleHandle load_ptx(const Vendor::Context& context, const Binary& binary) {
    const auto scope = context.make_current();
    const Api& api = context.api();
    const std::string ptx(reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size());
    std::array<char, 8192> info{}, error{};
    JitOption options[] = {kJitInfoLogBuffer, kJitInfoLogBufferBytes, kJitErrorLogBuffer,
                           kJitErrorLogBufferBytes};
    // Sizes travel as the value of a pointer; the driver writes the used sizes back.
    void* values[] = {info.data(), reinterpret_cast<void*>(info.size()), error.data(),
                      reinterpret_cast<void*>(error.size())};
    ModuleHandle module = nullptr;
    const Result result = api.module_load_data_ex(&module, ptx.c_str(), 4, options, values);
    if (result != kSuccess) {
        std::string what = "compiling the PTX of '" + binary.entry + "' " + context.place();
        for (const auto* log : {&error, &info}) {
            const std::size_t length = strnlen(log->data(), log->size());
            if (length != 0) what += "\n" + std::string(log->data(), length);
        }
        api.fail(result, Call::module_load_data_ex, what);
    }
    return module;
}

bool can_launch_clusters(const Api& api, DeviceHandle device) {
    int answer = 0;  // a driver older than CUDA 11.8 does not know the question
    return api.device_get_attribute(&answer, kClusterLaunch, device) == kSuccess && answer != 0;
}

}  // namespace

DeviceContext::DeviceContext(const Api& api, const DeviceInfo& info, void* given)
    : api_(api),
      device_(Vendor::device_handle(api, info.ordinal)),
      context_(static_cast<ContextHandle>(given)),
      is_primary_(given == nullptr) {
    has_clusters_ = can_launch_clusters(api_, device_);
    if (!is_primary_) return;
    if (const Result result = api_.primary_context_retain(&context_, device_); result != kSuccess)
        api_.fail(result, Call::primary_context_retain, "opening the context " + gpu::place(info));
    // Where nothing is current in this thread, it stays current, as with the CUDA runtime.
    ContextHandle previous = nullptr;
    if (const Result result = enter(previous); result != kSuccess) {
        api_.primary_context_release(device_);
        api_.fail(result, kEnterCall);
    }
    leave(previous);
}

int device_of_context(const Api& api, void*& native) {
    ContextHandle before = nullptr;
    static_cast<void>(api.context_get_current(&before));
    if (native == nullptr) native = before;
    if (native == nullptr)
        throw UsageError(
            "no context is current in this thread: make one current (cuCtxSetCurrent, or any call of the "
            "CUDA runtime), or use ContextRef::primary()");
    DeviceHandle device = 0;
    Result result = api.context_set_current(static_cast<ContextHandle>(native));
    if (result == kSuccess) {
        result = api.context_get_device(&device);
        static_cast<void>(api.context_set_current(before));
    }
    if (result != kSuccess)
        throw UsageError("the driver rejects the handle in ContextRef as a context: " + api.describe(result) +
                         "; it takes a CUcontext, for a green context that of cuCtxFromGreenCtx");
    int count = 0;
    api.check(api.device_get_count(&count), Call::device_get_count);
    for (int ordinal = 0; ordinal < count; ++ordinal)
        if (Vendor::device_handle(api, ordinal) == device) return ordinal;
    throw UsageError("the context of ContextRef belongs to no device that the driver lists");
}

DeviceHandle Vendor::device_handle(const Api& api, int ordinal) {
    DeviceHandle device = 0;
    api.check(api.device_get(&device, ordinal), Call::device_get);
    return device;
}

// From compute capability 9.0 on, the suffix "a" gives the instructions of just this architecture (wgmma, TMA
// multicast, tcgen05), and a kernel built at run time for this device has nothing to lose by it.
std::string Vendor::arch(const Api& api, DeviceHandle device) {
    std::int64_t major = 0, minor = 0;
    ask(api, device, kComputeCapabilityMajor, major);
    ask(api, device, kComputeCapabilityMinor, minor);
    return formatted("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");
}

void Vendor::ask(const Api& api, DeviceHandle device, DeviceAttribute which, std::int64_t& limit) {
    int value = 0;
    api.check(api.device_get_attribute(&value, which, device), Call::device_get_attribute);
    limit = value;
}

void Vendor::ask_further(const Api& api, DeviceHandle device, Limits& limits) {
    ask(api, device, kMaxRegistersPerMultiprocessor, limits.registers_per_multiprocessor);
    ask(api, device, kMaxSharedPerBlockOptin, limits.shared_bytes_per_block_optin);
    limits.shared_bytes_per_block_optin =
        std::max(limits.shared_bytes_per_block, limits.shared_bytes_per_block_optin);
    if (can_launch_clusters(api, device)) limits.blocks_per_cluster = kPortableClusterBlocks;
}

ModuleHandle Vendor::load(const Context& context, const Binary& binary) {
    switch (binary.kind) {
        case BinaryKind::cubin:
            return load_elf(context, binary, "cubin");
        case BinaryKind::ptx:
            return load_ptx(context, binary);
        case BinaryKind::code_object:
        case BinaryKind::shared_object:
        case BinaryKind::ltoir:
            break;
    }
    throw DeviceError("'" + binary.entry + "' was compiled for another backend; CUDA loads cubins and PTX");
}

void Vendor::make_ready(const Context& context, FunctionHandle function) {
    const Api& api = context.api();
    // Under lazy loading the first launch would load the code, which can wait for the device to drain.
    if (api.function_load != nullptr) api.check(api.function_load(function), Call::function_load);
    // Clusters of more than 8 blocks have to be allowed, which costs those of 8 and fewer nothing. A driver that
    // does not allow them says so at the launch that would need it.
    if (context.device().has_clusters())
        api.function_set_attribute(function, kFunctionNonPortableClusterAllowed, 1);
}

std::optional<std::vector<std::size_t>> Vendor::argument_bytes(const Api& api, FunctionHandle function) {
    if (api.function_get_param_info == nullptr) return std::nullopt;
    std::vector<std::size_t> sizes;
    for (;;) {
        std::size_t offset = 0, bytes = 0;
        const Result result = api.function_get_param_info(function, sizes.size(), &offset, &bytes);
        if (result == kErrorInvalidValue) return sizes;  // one past the last
        api.check(result, Call::function_get_param_info);
        sizes.push_back(bytes);
    }
}

Result Vendor::launch_with_attributes(const Context& context, FunctionHandle function,
                                      const std::string& entry, const LaunchShape& shape, void** arguments,
                                      StreamHandle stream) {
    const Api& api = context.api();
    const DeviceContext& device = context.device();
    const bool in_clusters = shape.cluster != Dim3{};
    if (in_clusters && (api.launch_kernel_ex == nullptr || !device.has_clusters())) {
        throw DeviceError(
            "'" + entry + "' is launched in clusters of " + gpu::text(shape.cluster) +
                " blocks, which needs compute capability 9.0 and a driver of CUDA 11.8 or newer; " +
                context.info().name + " is " + context.info().arch + " with " + api.version,
            Call::launch_kernel_ex);
    }
    if (shape.has_options() && api.launch_kernel_ex == nullptr)
        throw UsageError("'" + entry +
                         "' can't be launched with a priority or an access policy window: that needs a " +
                         "driver of CUDA 11.8 or newer, and this is " + api.version + ".");
    if (shape.cooperative && api.launch_kernel_ex == nullptr)
        throw DeviceError("'" + entry +
                              "' is a cooperative launch, which needs a driver of CUDA 11.8 or newer; " +
                              context.info().name + " has " + api.version,
                          Call::launch_kernel_ex);
    LaunchAttribute attributes[5] = {};
    unsigned count = 0;
    if (in_clusters) {
        attributes[count].id = kLaunchClusterDimension;
        attributes[count++].value.cluster = {shape.cluster.x, shape.cluster.y, shape.cluster.z};
    }
    if (shape.dependent && device.can_overlap()) {
        attributes[count].id = kLaunchProgrammaticSerialization;
        attributes[count++].value.programmatic_serialization = 1;
    }
    if (shape.cooperative) {
        attributes[count].id = kLaunchCooperative;
        attributes[count++].value.cooperative = 1;
    }
    if (shape.options != nullptr && shape.options->priority) {
        attributes[count].id = kLaunchPriority;
        attributes[count++].value.priority = *shape.options->priority;
    }
    if (shape.options != nullptr && shape.options->access_policy) {
        const kiln::AccessPolicyWindow& window = *shape.options->access_policy;
        attributes[count].id = kLaunchAccessPolicyWindow;
        // The enumerators are CUDA's.
        attributes[count++].value.access_policy = {const_cast<void*>(window.base), window.bytes,
                                                   window.hit_ratio, static_cast<AccessProperty>(window.hit),
                                                   static_cast<AccessProperty>(window.miss)};
    }
    const LaunchConfig config{shape.grid.x,
                              shape.grid.y,
                              shape.grid.z,
                              shape.block.x,
                              shape.block.y,
                              shape.block.z,
                              static_cast<unsigned>(shape.dynamic_shared_bytes),
                              stream,
                              attributes,
                              count};
    return api.launch_kernel_ex(&config, function, arguments, nullptr);
}

std::string Vendor::stream_problem(const Context& context, StreamHandle stream) {
    const Api& api = context.api();
    ContextHandle of = nullptr;
    if (api.stream_get_context(stream, &of) != kSuccess || of == context.device().native()) return {};
    DeviceHandle device = 0, ours = 0;
    ContextHandle current = nullptr;
    static_cast<void>(api.context_get_current(&current));
    api.check(api.context_get_device(&ours), Call::context_get_device);
    Result result = api.context_set_current(of);
    if (result == kSuccess) {
        result = api.context_get_device(&device);
        static_cast<void>(api.context_set_current(current));
    }
    if (result != kSuccess) return {};
    if (device != ours) return formatted("belongs to device {}; take one of device {}", device, ours);
    // A green context has part of the multiprocessors of the primary one, and all of its memory and modules.
    GreenContextHandle green = nullptr;
    if (api.stream_get_green_context != nullptr && api.stream_get_green_context(stream, &green) == kSuccess &&
        green != nullptr)
        return {};
    return formatted(
        "belongs to another context of device {}; ServiceOptions::context says which one to work in", ours);
}

GraphExecHandle Vendor::instantiate(const Context& context, GraphHandle captured) {
    const Api& api = context.api();
    if (api.graph_instantiate == nullptr) {
        throw DeviceError(
            "a graph needs a driver of CUDA 11.4 or newer; " + context.info().name + " has " + api.version,
            Call::graph_instantiate);
    }
    GraphExecHandle graph = nullptr;
    api.check(api.graph_instantiate(&graph, captured, 0), Call::graph_instantiate);
    return graph;
}

}  // namespace cuda

std::vector<DeviceInfo> list_cuda_devices(std::string* reason) {
    return gpu::list_devices<cuda::Vendor>(cuda::api(reason), reason);
}

int current_cuda_device() {
    std::string reason;
    const cuda::Api* const api = cuda::api(&reason);
    if (api == nullptr) throw DeviceError("no CUDA device is current: " + reason);
    cuda::ContextHandle current = nullptr;
    api->check(api->context_get_current(&current), cuda::Api::Call::context_get_current);
    if (current == nullptr) return 0;
    void* native = current;
    return cuda::device_of_context(*api, native);
}

std::shared_ptr<Driver> open_cuda_device(int ordinal, ContextRef context) {
    std::string reason;
    const cuda::Api* const api = cuda::api(&reason);
    void* native = context.native();
    if (api != nullptr && !context.is_primary()) ordinal = cuda::device_of_context(*api, native);
    return gpu::open_device<cuda::Vendor>(api, reason, ordinal, native);
}

}  // namespace kiln
