// SPDX-License-Identifier: Apache-2.0
//
// Opens the CUDA driver and retains a primary context, by the driver's own calls only.
#include "bench/bare_cuda.h"

#include <kiln/error.h>

#include "format/format.h"

namespace kiln::bench {

void check(cuda::Result result, const char* call) {
    if (result != cuda::kSuccess)
        throw DeviceError(formatted("{} failed with code {}", call, result), call, result);
}

BareCuda::BareCuda(int ordinal) {
    std::string error;
    DynamicLibrary library = DynamicLibrary::open({"libcuda.so.1"}, &error);
    if (!library) throw DeviceError("there is no CUDA driver: " + error);
    library.keep_forever();

    const auto resolve = [&](auto& function, const char* symbol) {
        if (!library.resolve(function, symbol))
            throw DeviceError(std::string("the CUDA driver has no ") + symbol);
    };
    decltype(cuda::Api::init) init = nullptr;
    decltype(cuda::Api::device_get) device_get = nullptr;
    decltype(cuda::Api::primary_context_retain) primary_context_retain = nullptr;
    decltype(cuda::Api::context_set_current) context_set_current = nullptr;
    resolve(init, "cuInit");
    resolve(device_get, "cuDeviceGet");
    resolve(primary_context_retain, "cuDevicePrimaryCtxRetain");
    resolve(context_set_current, "cuCtxSetCurrent");
    resolve(module_load_data_, "cuModuleLoadData");
    resolve(module_get_function_, "cuModuleGetFunction");
    resolve(launch_kernel, "cuLaunchKernel");
    resolve(copy_, "cuMemcpyDtoDAsync_v2");
    library.resolve(function_load_, "cuFuncLoad");  // from CUDA 12.4

    cuda::DeviceHandle device = 0;
    cuda::ContextHandle context = nullptr;
    check(init(0), "cuInit");
    check(device_get(&device, ordinal), "cuDeviceGet");
    check(primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(context_set_current(context), "cuCtxSetCurrent");
}

BareCuda::Loaded BareCuda::load(const void* cubin, const char* entry) const {
    Loaded loaded;
    check(module_load_data_(&loaded.module, cubin), "cuModuleLoadData");
    check(module_get_function_(&loaded.function, loaded.module, entry), "cuModuleGetFunction");
    if (function_load_ != nullptr) check(function_load_(loaded.function), "cuFuncLoad");
    return loaded;
}

void BareCuda::copy(void* destination, const void* source, std::size_t bytes, void* stream) const {
    check(
        copy_(reinterpret_cast<cuda::DevicePointer>(destination),
              reinterpret_cast<cuda::DevicePointer>(source), bytes, static_cast<cuda::StreamHandle>(stream)),
        "cuMemcpyDtoDAsync");
}

}  // namespace kiln::bench
