// SPDX-License-Identifier: Apache-2.0
//
// Opens libamdhip64, resolves the table, initialises the runtime once; descriptions of its errors;
// the name of a device's architecture. Compiled everywhere, run on no AMD device so far.
#include "device/hip_api.h"

#include <kiln/error.h>

#include <cctype>
#include <cstddef>
#include <cstring>

#include "format/format.h"

namespace kiln::hip {
namespace {

std::string version_text(const Api& api) {
    int version = 0;
    if (api.runtime_get_version(&version) != kSuccess) return "unknown";
    return formatted("HIP {}.{}.{}", version / 10000000, version / 100000 % 100, version % 100000);
}

std::string open(Api& api) {
    std::string error;
    // By the version of the interface, never the bare name: that is the development package's link.
    api.library = DynamicLibrary::open({"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}, &error);
    if (!api.library) {
        // One message of the loader per name; those that only say that there is no such file add nothing.
        const bool is_more =
            error.find("undefined symbol") != std::string::npos || error.find("version") != std::string::npos;
        return "libamdhip64.so.7, .6 or .5, which comes with ROCm, was not found" +
               (is_more ? " (" + error + ")" : "");
    }
    api.library.keep_forever();
    const std::string missing = api.resolve(api.library);
    api.library.resolve(api.get_error_name, "hipGetErrorName");
    api.library.resolve(api.get_error_string, "hipGetErrorString");
    if (!missing.empty())
        return api.library.path().string() + " lacks " + missing + "; Kiln needs ROCm 5.0 or newer";
    // Without hardware hipInit answers "invalid device"; the count says it better.
    const Result initialised = api.init(0);
    int count = 0;
    const Result counted = api.device_get_count(&count);
    if (counted != kSuccess || initialised != kSuccess)
        return "the runtime answers: " + api.describe(counted != kSuccess ? counted : initialised);
    api.version = version_text(api);
    return {};
}

}  // namespace

std::string Functions::describe(Result result) const {
    const char* name = get_error_name != nullptr ? get_error_name(result) : nullptr;
    const char* text = get_error_string != nullptr ? get_error_string(result) : nullptr;
    if (name == nullptr) name = "an unknown error";
    // ROCm 5 gives the name for both.
    if (text == nullptr || std::strcmp(name, text) == 0) return formatted("{} ({})", name, result);
    return formatted("{} ({}, {})", text, name, result);
}

const Api* api(std::string* reason) { return opened_once(open, reason); }

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
        throw DeviceError(formatted("the architecture of HIP device {} can't be read from {}: no name that "
                                    "starts with 'gfx' lies where it should",
                                    device, api.version),
                          "hipGetDeviceProperties");
    }
    return name;
}

}  // namespace kiln::hip
