// SPDX-License-Identifier: Apache-2.0
//
// Opens libamdhip64, resolves the table, initialises the runtime once; words for its errors; the name
// of a device's architecture. Compiled everywhere, run on no AMD device so far.
#include "device/hip_api.h"

#include <kiln/error.h>

#include <cctype>
#include <cstddef>
#include <cstring>

namespace kiln::hip {
namespace {

struct Opened {
    Api api;
    std::string problem;  // empty: the runtime works
};

bool resolve(Api& api, std::string& missing) {
#define KILN_REQUIRED(member, symbol, arguments) \
    if (!api.library.resolve(api.member, #symbol)) missing += missing.empty() ? #symbol : ", " #symbol;
#define KILN_OPTIONAL(member, symbol, arguments) api.library.resolve(api.member, #symbol);
    KILN_HIP_FUNCTIONS(KILN_REQUIRED, KILN_OPTIONAL)
#undef KILN_REQUIRED
#undef KILN_OPTIONAL
    api.library.resolve(api.get_error_name, "hipGetErrorName");
    api.library.resolve(api.get_error_string, "hipGetErrorString");
    return missing.empty();
}

std::string version_text(const Api& api) {
    int version = 0;
    if (api.runtime_get_version(&version) != kSuccess) return "unknown";
    return "HIP " + std::to_string(version / 10000000) + "." + std::to_string(version / 100000 % 100) + "." +
           std::to_string(version % 100000);
}

void open(Opened& opened) {
    Api& api = opened.api;
    std::string error;
    // By the version of the interface, never the bare name: that is the development package's link.
    api.library = DynamicLibrary::open({"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}, &error);
    if (!api.library) {
        // One message of the loader per name; those that only say that there is no such file add nothing.
        opened.problem = "libamdhip64.so.7, .6 or .5, which comes with ROCm, was not found";
        if (error.find("undefined symbol") != std::string::npos || error.find("version") != std::string::npos)
            opened.problem += " (" + error + ")";
        return;
    }
    api.library.keep_forever();
    std::string missing;
    if (!resolve(api, missing)) {
        opened.problem = api.library.path().string() + " lacks " + missing + "; Kiln needs ROCm 5.0 or newer";
        return;
    }
    // Without hardware hipInit answers "invalid device"; the count says it better.
    const Result initialised = api.init(0);
    int count = 0;
    const Result counted = api.device_get_count(&count);
    if (counted != kSuccess || initialised != kSuccess) {
        opened.problem = "the runtime answers: " + api.describe(counted != kSuccess ? counted : initialised);
        return;
    }
    api.version = version_text(api);
}

}  // namespace

std::string Api::describe(Result result) const {
    const char* name = get_error_name != nullptr ? get_error_name(result) : nullptr;
    const char* text = get_error_string != nullptr ? get_error_string(result) : nullptr;
    if (name == nullptr) name = "an unknown error";
    // ROCm 5 gives the name for both.
    if (text == nullptr || std::strcmp(name, text) == 0)
        return std::string(name) + " (" + std::to_string(result) + ")";
    return std::string(text) + " (" + name + ", " + std::to_string(result) + ")";
}

void Api::fail(Result result, const char* call, std::string_view what) const {
    std::string message = std::string(call) + " failed: " + describe(result);
    if (!what.empty()) message += "; " + std::string(what);
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

std::string arch_name(const Api& api, int device) {
    alignas(std::max_align_t) char properties[kPropertiesBufferBytes] = {};
    std::size_t offset = kArchNameOffset;
    if (api.device_get_properties_r0600 != nullptr) {
        offset = kArchNameOffsetR0600;
        api.check(api.device_get_properties_r0600(properties, device), "hipGetDevicePropertiesR0600");
    } else {
        api.check(api.device_get_properties(properties, device), "hipGetDeviceProperties");
    }
    const char* const field = properties + offset;
    std::string name(field, strnlen(field, kArchNameBytes));
    name = name.substr(0, name.find(':'));
    bool plausible = name.starts_with("gfx") && name.size() > 3;
    for (const char letter : name) plausible = plausible && std::isalnum(static_cast<unsigned char>(letter));
    if (!plausible) {
        throw DeviceError("the architecture of HIP device " + std::to_string(device) +
                              " can't be read from " + api.version +
                              ": no name that starts with 'gfx' lies where it should",
                          "hipGetDeviceProperties");
    }
    return name;
}

}  // namespace kiln::hip
