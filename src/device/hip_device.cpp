// SPDX-License-Identifier: Apache-2.0
//
// HIP's part of GPU devices. Compiled everywhere, run on no AMD device so far.
#include <kiln/error.h>

#include <algorithm>

#include "device/gpu_driver.h"
#include "device/hip_vendor.h"
#include "format/format.h"

namespace kiln {
namespace hip {

Limits Vendor::limits_to_assume(const std::string& arch) {
    return arch_limits(Backend::hip, arch).value_or(Limits{});
}

void Vendor::ask(const Api& api, int device, DeviceAttribute which, std::int64_t& limit) {
    int value = 0;
    if (api.device_get_attribute(&value, which, device) == kSuccess && value > 0) limit = value;
}

void Vendor::ask_further(const Api&, int, Limits& limits) {
    limits.shared_bytes_per_block_optin = limits.shared_bytes_per_block;  // there is nothing to opt in to
    limits.registers_per_multiprocessor =
        std::max(limits.registers_per_multiprocessor, limits.registers_per_block);
}

ModuleHandle Vendor::load(const Context& context, const Binary& binary) {
    if (binary.kind != BinaryKind::code_object) {
        throw DeviceError("'" + binary.entry + "' was compiled for another backend; HIP loads code objects");
    }
    return load_elf(context, binary, "code object");
}

Result Vendor::launch_with_attributes(const Context& context, FunctionHandle function,
                                      const std::string& entry, const LaunchShape& shape, void** arguments,
                                      StreamHandle stream) {
    if (shape.has_options())
        throw UsageError("'" + entry + "' can't be launched with " +
                         (shape.options->priority
                              ? "a priority of its own: HIP has priorities of streams only; "
                                "take a stream of that priority, Device::stream(priority)"
                              : "an access policy window: HIP has none") +
                         ".");
    if (shape.cooperative && shape.cluster == Dim3{}) {
        const Api& api = context.api();
        if (api.launch_cooperative_kernel == nullptr)
            throw DeviceError("'" + entry +
                                  "' is a cooperative launch, which this ROCm does not have for modules: " +
                                  api.version + " lacks hipModuleLaunchCooperativeKernel",
                              Call::launch_cooperative_kernel);
        return api.launch_cooperative_kernel(
            function, shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y, shape.block.z,
            static_cast<unsigned>(shape.dynamic_shared_bytes), stream, arguments);
    }
    throw DeviceError("'" + entry + "' is launched in clusters of " + gpu::text(shape.cluster) +
                          " blocks; AMD devices have no clusters",
                      Call::launch_kernel);
}

std::string Vendor::stream_problem(const Context& context, StreamHandle stream) {
    int device = 0;
    const Api& api = context.api();
    if (api.stream_get_device == nullptr || api.stream_get_device(stream, &device) != kSuccess ||
        device == context.info().ordinal)
        return {};
    return formatted("belongs to device {}; take one of device {}", device, context.info().ordinal);
}

GraphExecHandle Vendor::instantiate(const Context& context, GraphHandle captured) {
    const Api& api = context.api();
    GraphExecHandle graph = nullptr;
    api.check(api.graph_instantiate(&graph, captured, nullptr, nullptr, 0), Call::graph_instantiate);
    return graph;
}

void Vendor::encode_tensor_map(const Context&, const TensorMapLayout& layout, void*) {
    throw UsageError("The tensor map " + layout.name +
                     " can't be made: AMD's devices have no TMA, and so no tensor maps.");
}

}  // namespace hip

std::vector<DeviceInfo> list_hip_devices(std::string* reason) {
    return gpu::list_devices<hip::Vendor>(hip::api(reason), reason);
}

int current_hip_device() {
    std::string reason;
    const hip::Api* const api = hip::api(&reason);
    if (api == nullptr) throw DeviceError("no HIP device is current: " + reason);
    int device = 0;
    api->check(api->get_device(&device), hip::Api::Call::get_device);
    return device;
}

std::shared_ptr<Driver> open_hip_device(int ordinal) {
    std::string reason;
    const hip::Api* const api = hip::api(&reason);
    return gpu::open_device<hip::Vendor>(api, reason, ordinal, nullptr);
}

}  // namespace kiln
