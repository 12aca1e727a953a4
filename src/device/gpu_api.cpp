// SPDX-License-Identifier: Apache-2.0
//
// The message of a failed call.
#include "device/gpu_api.h"

#include <kiln/error.h>

namespace kiln::gpu {

void throw_failure(Result result, std::string_view symbol, const std::string& description,
                   std::string_view what, std::string_view hint) {
    if (symbol.ends_with("_v2")) symbol.remove_suffix(3);
    const std::string call(symbol);
    std::string message = call + " failed: " + description;
    if (!what.empty()) message += "; " + std::string(what);
    message += hint;
    throw DeviceError(message, call, result);
}

}  // namespace kiln::gpu
