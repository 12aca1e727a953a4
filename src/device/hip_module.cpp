// SPDX-License-Identifier: Apache-2.0
//
// Loading, function attributes and launches on HIP. Compiled everywhere, run on no AMD device so far.
#include "device/hip_module.h"

#include <kiln/error.h>

#include <string>
#include <utility>

#include "device/capture.h"
#include "device/elf_image.h"

namespace kiln::hip {
namespace {

std::string text(const Dim3& extent) {
    return std::to_string(extent.x) + "x" + std::to_string(extent.y) + "x" + std::to_string(extent.z);
}

ModuleHandle load(const Context& context, const Binary& binary) {
    constexpr const char* kCall = "hipModuleLoadData";
    if (binary.kind != BinaryKind::code_object) {
        throw DeviceError("'" + binary.entry + "' was compiled for another backend; HIP loads code objects");
    }
    if (const std::string problem = elf_image_problem(binary.bytes); !problem.empty()) {
        throw DeviceError("the code object of '" + binary.entry + "' is damaged: it " + problem, kCall,
                          kErrorInvalidImage);
    }
    context.make_current();
    const Api& api = context.api();
    ModuleHandle module = nullptr;
    const Result result = api.module_load_data(&module, binary.bytes.data());
    if (result != kSuccess) {
        api.fail(result, kCall,
                 "loading the code object of '" + binary.entry + "' " + context.place() +
                     ", whose architecture is " + context.info().arch);
    }
    return module;
}

}  // namespace

HipModule::HipModule(std::shared_ptr<const Context> context, ModuleHandle module)
    : context_(std::move(context)), module_(module) {}

// Delegates first, so that the destructor unloads the module if the rest throws.
HipModule::HipModule(std::shared_ptr<const Context> context, const Binary& binary)
    : HipModule(context, load(*context, binary)) {
    const Api& api = context_->api();
    entry_ = binary.entry;
    const Result result = api.module_get_function(&function_, module_, entry_.c_str());
    if (result != kSuccess) {
        api.fail(result, "hipModuleGetFunction", "the binary has no kernel '" + entry_ + "'");
    }
    info_.registers = attribute(kFunctionRegisters);
    info_.local_bytes = static_cast<std::size_t>(attribute(kFunctionLocalBytes));
    info_.static_shared_bytes = static_cast<std::size_t>(attribute(kFunctionSharedBytes));
    info_.max_threads_per_block = attribute(kFunctionMaxThreadsPerBlock);
}

HipModule::~HipModule() {
    if (context_->try_make_current()) static_cast<void>(context_->api().module_unload(module_));
}

int HipModule::attribute(FunctionAttribute which) const {
    int value = 0;
    const Api& api = context_->api();
    api.check(api.function_get_attribute(&value, which, function_), "hipFuncGetAttribute");
    return value;
}

// The whole local memory of a compute unit can be asked for without leave.
void HipModule::allow_dynamic_shared(std::size_t bytes) {
    const auto most = static_cast<std::size_t>(context_->info().limits.shared_bytes_per_block_optin);
    const std::size_t fixed = info_.static_shared_bytes;
    if (bytes > most || fixed > most - bytes) {
        throw DeviceError("'" + entry_ + "' needs " + std::to_string(fixed) + " bytes of static and " +
                              std::to_string(bytes) + " of dynamic shared memory, but a block " +
                              context_->place() + " has at most " + std::to_string(most) + "; at most " +
                              std::to_string(most > fixed ? most - fixed : 0) + " bytes can be dynamic",
                          "hipModuleLaunchKernel", kErrorInvalidValue);
    }
}

void HipModule::launch(const LaunchShape& shape, void* const* arguments, void* stream) const {
    if (shape.cluster.x != 1 || shape.cluster.y != 1 || shape.cluster.z != 1) {
        throw DeviceError("'" + entry_ + "' is launched in clusters of " + text(shape.cluster) +
                              " blocks; AMD devices have no clusters",
                          "hipModuleLaunchKernel");
    }
    context_->make_current();
    const Result result = context_->api().launch_kernel(
        function_, shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y, shape.block.z,
        static_cast<unsigned>(shape.dynamic_shared_bytes), static_cast<StreamHandle>(stream),
        const_cast<void**>(arguments), nullptr);
    if (result != kSuccess) [[unlikely]]
        fail_launch(result, shape);
    if (Capture* const capture = Capture::current()) [[unlikely]]
        capture->keep(shared_from_this());
}

void HipModule::fail_launch(Result result, const LaunchShape& shape) const {
    std::string what =
        "launching '" + entry_ + "' " + context_->place() + " with a grid of " + text(shape.grid) +
        " blocks of " + text(shape.block) + " threads and " + std::to_string(info_.static_shared_bytes) +
        " + " + std::to_string(shape.dynamic_shared_bytes) + " bytes of static and dynamic shared memory";
    if (shape.block.count() > static_cast<std::uint64_t>(info_.max_threads_per_block)) {
        what += "; this kernel takes at most " + std::to_string(info_.max_threads_per_block) +
                " threads per block";
    }
    if (std::uint64_t{shape.grid.x} * shape.block.x >> 32 != 0) {
        what += "; HIP counts a grid in threads, of which each dimension has fewer than 2^32";
    }
    context_->api().fail(result, "hipModuleLaunchKernel", what);
}

std::optional<int> HipModule::blocks_per_multiprocessor(const LaunchShape& shape) const {
    context_->make_current();
    const Api& api = context_->api();
    int blocks = 0;
    api.check(api.occupancy_blocks(&blocks, function_, static_cast<int>(shape.block.count()),
                                   shape.dynamic_shared_bytes),
              "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor");
    return blocks;
}

}  // namespace kiln::hip
