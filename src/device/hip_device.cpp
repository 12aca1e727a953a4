// SPDX-License-Identifier: Apache-2.0
//
// HIP's part of GPU devices. Compiled everywhere, run on no AMD device so far.
#include <kiln/error.h>

#include <algorithm>

#include "device/gpu_driver.h"
#include "device/hip_vendor.h"

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

Result Vendor::launch_with_attributes(const Context&, FunctionHandle, const std::string& entry,
                                      const LaunchShape& shape, void**, StreamHandle) {
    throw DeviceError("'" + entry + "' is launched in clusters of " + gpu::text(shape.cluster) +
                          " blocks; AMD devices have no clusters",
                      Call::launch_kernel);
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

std::shared_ptr<Driver> open_hip_device(int ordinal) {
    std::string reason;
    const hip::Api* const api = hip::api(&reason);
    return gpu::open_device<hip::Vendor>(api, reason, ordinal, nullptr);
}

}  // namespace kiln
