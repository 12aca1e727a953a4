// SPDX-License-Identifier: Apache-2.0
//
// Opens libcuda.so.1, resolves the table, initialises the driver once; descriptions of its errors.
#include "device/cuda_api.h"

#include <filesystem>

#include "format/format.h"

namespace kiln::cuda {
namespace {

// The file is libcuda.so.580.95.05 behind its links; its name is the only place that tells the
// driver's own version without another library.
std::string version_text(const Api& api) {
    int version = 0;
    if (api.driver_get_version(&version) != kSuccess) return "unknown";
    std::string text = formatted("CUDA {}.{}", version / 1000, version % 1000 / 10);
    std::error_code error;
    const std::string file = std::filesystem::canonical(api.library.path(), error).filename().string();
    const std::string_view prefix = "libcuda.so.";
    if (!error && file.starts_with(prefix) && file.size() > prefix.size() + 1) {
        text += ", driver " + file.substr(prefix.size());
    }
    return text;
}

std::string open(Api& api) {
    std::string error;
    api.library = DynamicLibrary::open({"libcuda.so.1"}, &error);
    if (!api.library) {
        const bool is_absent = error.find("No such file") != std::string::npos;
        return "libcuda.so.1, which comes with NVIDIA's driver, was not found" +
               (is_absent ? "" : " (" + error + ")");
    }
    api.library.keep_forever();
    if (const std::string missing = api.resolve(api.library); !missing.empty())
        return api.library.path().string() + " lacks " + missing +
               "; Kiln needs the driver of CUDA 11.0 or newer";
    if (const Result result = api.init(0); result != kSuccess)
        return "the driver answers: " + api.describe(result);
    api.version = version_text(api);
    return {};
}

// Memory faults and similar: the context stays broken, and every later call reports them.
bool is_sticky(Result result) {
    switch (result) {
        case kErrorIllegalAddress:
        case kErrorLaunchTimeout:
        case kErrorAssert:
        case kErrorHardwareStackError:
        case kErrorIllegalInstruction:
        case kErrorMisalignedAddress:
        case kErrorInvalidAddressSpace:
        case kErrorInvalidPc:
        case kErrorLaunchFailed:
            return true;
        default:
            return false;
    }
}

}  // namespace

std::string Functions::describe(Result result) const {
    const char* name = nullptr;
    const char* text = nullptr;
    if (get_error_name(result, &name) != kSuccess || name == nullptr) name = "an unknown error";
    if (get_error_string(result, &text) != kSuccess || text == nullptr) text = "no description";
    return formatted("{} ({}, {})", text, name, result);
}

std::string_view Functions::hint(Result result) {
    if (!is_sticky(result)) return {};
    return ". An earlier launch may be the cause: a kernel's fault is reported by whichever call comes "
           "next, and CUDA does not work in this process any more";
}

const Api* api(std::string* reason) { return opened_once(open, reason); }

}  // namespace kiln::cuda
