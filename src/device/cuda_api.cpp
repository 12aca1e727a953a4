// SPDX-License-Identifier: Apache-2.0
//
// Opens libcuda.so.1, resolves the table, initialises the driver once; words for its errors.
#include "device/cuda_api.h"

#include <kiln/error.h>

#include <filesystem>

namespace kiln::cuda {
namespace {

struct Opened {
    Api api;
    std::string problem;  // empty: the driver works
};

bool resolve(Api& api, std::string& missing) {
#define KILN_REQUIRED(member, symbol, arguments) \
    if (!api.library.resolve(api.member, #symbol)) missing += missing.empty() ? #symbol : ", " #symbol;
#define KILN_OPTIONAL(member, symbol, arguments) api.library.resolve(api.member, #symbol);
    KILN_CUDA_FUNCTIONS(KILN_REQUIRED, KILN_OPTIONAL)
#undef KILN_REQUIRED
#undef KILN_OPTIONAL
    return missing.empty();
}

// The file is libcuda.so.580.95.05 behind its links; its name is the only place that tells the
// driver's own version without another library.
std::string version_text(const Api& api) {
    int version = 0;
    if (api.driver_get_version(&version) != kSuccess) return "unknown";
    std::string text = "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
    std::error_code error;
    const std::string file = std::filesystem::canonical(api.library.path(), error).filename().string();
    const std::string_view prefix = "libcuda.so.";
    if (!error && file.starts_with(prefix) && file.size() > prefix.size() + 1) {
        text += ", driver " + file.substr(prefix.size());
    }
    return text;
}

void open(Opened& opened) {
    Api& api = opened.api;
    std::string error;
    api.library = DynamicLibrary::open({"libcuda.so.1"}, &error);
    if (!api.library) {
        opened.problem = "libcuda.so.1, which comes with NVIDIA's driver, was not found";
        if (error.find("No such file") == std::string::npos) opened.problem += " (" + error + ")";
        return;
    }
    api.library.keep_forever();
    std::string missing;
    if (!resolve(api, missing)) {
        opened.problem = api.library.path().string() + " lacks " + missing +
                         "; Kiln needs the driver of CUDA 11.0 or newer";
        return;
    }
    if (const Result result = api.init(0); result != kSuccess) {
        opened.problem = "the driver answers: " + api.describe(result);
        return;
    }
    api.version = version_text(api);
}

// Memory faults and their like: the context stays broken, and every later call reports them.
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

std::string Api::describe(Result result) const {
    const char* name = nullptr;
    const char* text = nullptr;
    if (get_error_name(result, &name) != kSuccess || name == nullptr) name = "an unknown error";
    if (get_error_string(result, &text) != kSuccess || text == nullptr) text = "no description";
    return std::string(text) + " (" + name + ", " + std::to_string(result) + ")";
}

void Api::fail(Result result, const char* call, std::string_view what) const {
    std::string message = std::string(call) + " failed: " + describe(result);
    if (!what.empty()) message += "; " + std::string(what);
    if (is_sticky(result)) {
        message +=
            ". An earlier launch may be the cause: a kernel's fault is reported by whichever call comes "
            "next, and CUDA does not work in this process any more";
    }
    throw DeviceError(message, call, result);
}

const Api* api(std::string* reason) {
    // Never destroyed: other static objects may free device memory after our own would be gone.
    static const Opened* const opened = [] {
        auto* result = new Opened;
        open(*result);
        return result;
    }();
    if (reason != nullptr) *reason = opened->problem;
    return opened->problem.empty() ? &opened->api : nullptr;
}

}  // namespace kiln::cuda
