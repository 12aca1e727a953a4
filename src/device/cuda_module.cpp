// SPDX-License-Identifier: Apache-2.0
//
// Loading, function attributes, the shared-memory mark and launches on CUDA.
#include "device/cuda_module.h"

#include <kiln/error.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "device/capture.h"
#include "device/elf_image.h"

namespace kiln::cuda {
namespace {

std::string text(const Dim3& extent) {
    return std::to_string(extent.x) + "x" + std::to_string(extent.y) + "x" + std::to_string(extent.z);
}

ModuleHandle load_cubin(const Context& context, const Binary& binary) {
    constexpr const char* kCall = "cuModuleLoadData";
    if (const std::string problem = elf_image_problem(binary.bytes); !problem.empty()) {
        throw DeviceError("the cubin of '" + binary.entry + "' is damaged: it " + problem, kCall,
                          kErrorInvalidImage);
    }
    const Api& api = context.api();
    ModuleHandle module = nullptr;
    const Result result = api.module_load_data(&module, binary.bytes.data());
    if (result != kSuccess) {
        api.fail(result, kCall,
                 "loading the cubin of '" + binary.entry + "' " + context.place() +
                     ", whose architecture is " + context.info().arch);
    }
    return module;
}

ModuleHandle load_ptx(const Context& context, const Binary& binary) {
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
        api.fail(result, "cuModuleLoadDataEx", what);
    }
    return module;
}

ModuleHandle load(const Context& context, const Binary& binary) {
    context.make_current();
    switch (binary.kind) {
        case BinaryKind::cubin:
            return load_cubin(context, binary);
        case BinaryKind::ptx:
            return load_ptx(context, binary);
        case BinaryKind::code_object:
        case BinaryKind::shared_object:
            break;
    }
    throw DeviceError("'" + binary.entry + "' was compiled for another backend; CUDA loads cubins and PTX");
}

}  // namespace

CudaModule::CudaModule(std::shared_ptr<const Context> context, ModuleHandle module)
    : context_(std::move(context)), module_(module) {}

// Delegates first, so that the destructor unloads the module if the rest throws.
CudaModule::CudaModule(std::shared_ptr<const Context> context, const Binary& binary)
    : CudaModule(context, load(*context, binary)) {
    const Api& api = context_->api();
    entry_ = binary.entry;
    const Result result = api.module_get_function(&function_, module_, entry_.c_str());
    if (result != kSuccess)
        api.fail(result, "cuModuleGetFunction", "the binary has no kernel '" + entry_ + "'");
    // Under lazy loading the first launch would load the code, which can wait for the device to drain.
    if (api.function_load != nullptr) api.check(api.function_load(function_), "cuFuncLoad");
    info_.registers = attribute(kFunctionRegisters);
    info_.local_bytes = static_cast<std::size_t>(attribute(kFunctionLocalBytes));
    info_.static_shared_bytes = static_cast<std::size_t>(attribute(kFunctionSharedBytes));
    info_.max_threads_per_block = attribute(kFunctionMaxThreadsPerBlock);
    info_.argument_bytes = argument_bytes();
    // Clusters of more than 8 blocks need leave, which costs those of 8 and fewer nothing. A driver that
    // refuses it says so at the launch that would need it.
    if (context_->has_clusters())
        api.function_set_attribute(function_, kFunctionNonPortableClusterAllowed, 1);
}

CudaModule::~CudaModule() {
    if (context_->try_make_current()) static_cast<void>(context_->api().module_unload(module_));
}

int CudaModule::attribute(FunctionAttribute which) const {
    int value = 0;
    const Api& api = context_->api();
    api.check(api.function_get_attribute(&value, which, function_), "cuFuncGetAttribute");
    return value;
}

std::optional<std::vector<std::size_t>> CudaModule::argument_bytes() const {
    const Api& api = context_->api();
    if (api.function_get_param_info == nullptr) return std::nullopt;
    std::vector<std::size_t> sizes;
    for (;;) {
        std::size_t offset = 0, bytes = 0;
        const Result result = api.function_get_param_info(function_, sizes.size(), &offset, &bytes);
        if (result == kErrorInvalidValue) return sizes;  // one past the last
        api.check(result, "cuFuncGetParamInfo");
        sizes.push_back(bytes);
    }
}

void CudaModule::allow_dynamic_shared(std::size_t bytes) {
    const Limits& limits = context_->info().limits;
    const auto optin = static_cast<std::size_t>(limits.shared_bytes_per_block_optin);
    const std::size_t fixed = info_.static_shared_bytes;
    if (bytes > optin || fixed > optin - bytes) {
        throw DeviceError("'" + entry_ + "' needs " + std::to_string(fixed) + " bytes of static and " +
                              std::to_string(bytes) + " of dynamic shared memory, but a block " +
                              context_->place() + " has at most " + std::to_string(optin) + "; at most " +
                              std::to_string(optin > fixed ? optin - fixed : 0) + " bytes can be dynamic",
                          "cuFuncSetAttribute", kErrorInvalidValue);
    }
    const std::lock_guard lock(mutex_);
    if (bytes <= dynamic_shared_.load(std::memory_order_relaxed)) return;
    // Up to 48 KB in all, static part included, need no leave.
    if (fixed + bytes > static_cast<std::size_t>(limits.shared_bytes_per_block)) {
        context_->make_current();
        const Api& api = context_->api();
        const Result result =
            api.function_set_attribute(function_, kFunctionMaxDynamicSharedBytes, static_cast<int>(bytes));
        if (result != kSuccess) {
            api.fail(
                result, "cuFuncSetAttribute",
                "allowing '" + entry_ + "' " + std::to_string(bytes) + " bytes of dynamic shared memory");
        }
    }
    dynamic_shared_.store(bytes, std::memory_order_relaxed);
}

// The hot path: no lock, no allocation, no look-up.
void CudaModule::launch(const LaunchShape& shape, void* const* arguments, void* stream) const {
    void** const values = const_cast<void**>(arguments);  // the driver only reads them
    const auto queue = static_cast<StreamHandle>(stream);
    if (shape.cluster != Dim3{} || (shape.dependent && context_->can_overlap()))
        return launch_with_attributes(shape, values, queue);
    const auto launch = [&] {
        return context_->api().launch_kernel(
            function_, shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y, shape.block.z,
            static_cast<unsigned>(shape.dynamic_shared_bytes), queue, values, nullptr);
    };
    Result result = launch();
    // Asking for the current context before every launch would cost more than the check of its result:
    // where none, or another's, is current in this thread the driver refuses and has done nothing.
    if (result == kErrorInvalidContext || result == kErrorInvalidHandle) [[unlikely]] {
        context_->make_current();
        result = launch();
    }
    if (result != kSuccess) [[unlikely]]
        fail_launch(result, "cuLaunchKernel", shape);
    if (Capture* const capture = Capture::current()) [[unlikely]]
        capture->keep(shared_from_this());
}

void CudaModule::launch_with_attributes(const LaunchShape& shape, void** arguments,
                                        StreamHandle stream) const {
    const Api& api = context_->api();
    const bool in_clusters = shape.cluster != Dim3{};
    if (in_clusters && (api.launch_kernel_ex == nullptr || !context_->has_clusters())) {
        throw DeviceError(
            "'" + entry_ + "' is launched in clusters of " + text(shape.cluster) +
                " blocks, which needs compute capability 9.0 and a driver of CUDA 11.8 or newer; " +
                context_->info().name + " is " + context_->info().arch + " with " + api.version,
            "cuLaunchKernelEx");
    }
    LaunchAttribute attributes[2] = {};
    unsigned count = 0;
    if (in_clusters) {
        attributes[count].id = kLaunchClusterDimension;
        attributes[count++].value.cluster = {shape.cluster.x, shape.cluster.y, shape.cluster.z};
    }
    if (shape.dependent && context_->can_overlap()) {
        attributes[count].id = kLaunchProgrammaticSerialization;
        attributes[count++].value.programmatic_serialization = 1;
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
    Result result = api.launch_kernel_ex(&config, function_, arguments, nullptr);
    if (result == kErrorInvalidContext || result == kErrorInvalidHandle) [[unlikely]] {
        context_->make_current();
        result = api.launch_kernel_ex(&config, function_, arguments, nullptr);
    }
    if (result != kSuccess) [[unlikely]]
        fail_launch(result, "cuLaunchKernelEx", shape);
    if (Capture* const capture = Capture::current()) capture->keep(shared_from_this());
}

void CudaModule::fail_launch(Result result, const char* call, const LaunchShape& shape) const {
    const Limits& limits = context_->info().limits;
    std::string what = "launching '" + entry_ + "' " + context_->place() + " with a grid of " +
                       text(shape.grid) + " blocks of " + text(shape.block) + " threads";
    if (shape.cluster != Dim3{}) what += " in clusters of " + text(shape.cluster);
    what += " and " + std::to_string(info_.static_shared_bytes) + " + " +
            std::to_string(shape.dynamic_shared_bytes) + " bytes of static and dynamic shared memory";
    if (shape.block.count() > static_cast<std::uint64_t>(info_.max_threads_per_block)) {
        what += "; this kernel takes at most " + std::to_string(info_.max_threads_per_block) +
                " threads per block";
    }
    const std::size_t allowed = std::max(
        dynamic_shared_.load(std::memory_order_relaxed),
        static_cast<std::size_t>(std::max<std::int64_t>(
            limits.shared_bytes_per_block - static_cast<std::int64_t>(info_.static_shared_bytes), 0)));
    if (shape.dynamic_shared_bytes > allowed) {
        what += "; it was allowed " + std::to_string(allowed) + " bytes of dynamic shared memory";
    }
    context_->api().fail(result, call, what);
}

std::optional<int> CudaModule::blocks_per_multiprocessor(const LaunchShape& shape) const {
    context_->make_current();
    const Api& api = context_->api();
    int blocks = 0;
    api.check(api.occupancy_blocks(&blocks, function_, static_cast<int>(shape.block.count()),
                                   shape.dynamic_shared_bytes),
              "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    return blocks;
}

}  // namespace kiln::cuda
