// SPDX-License-Identifier: Apache-2.0
//
// Columns are as wide as their widest word.
#include "cli/lists.h"

#include <algorithm>

#include "cli/json.h"
#include "cli/option_values.h"
#include "format/format.h"

namespace kiln::cli {

std::string kernels_text(const std::vector<KernelEntry>& kernels) {
    std::size_t width = 0;
    for (const KernelEntry& kernel : kernels) width = std::max(width, kernel.name.size());
    std::string text;
    for (const KernelEntry& kernel : kernels) {
        const std::string indent(width + 2, ' ');
        text += kernel.name + indent.substr(kernel.name.size()) + kernel.summary + "\n";
        if (!kernel.parameters.empty()) text += indent + kernel.parameters + "\n";
        if (kernel.is_declared) text += indent + "(runs the problem that it declares)\n";
        if (!kernel.is_gemm) text += indent + "(not a GEMM: jit-gemm can't run it)\n";
    }
    return text;
}

std::string kernels_json(const std::vector<KernelEntry>& kernels) {
    Json list = Json::array();
    for (const KernelEntry& kernel : kernels)
        list.push_back({{"name", kernel.name},
                        {"summary", kernel.summary},
                        {"defaults", kernel.parameters},
                        {"runs_here", kernel.is_gemm},
                        {"declared", kernel.is_declared}});
    Json json;
    json["kernels"] = list;
    return dumped(json);
}

std::string devices_text(const std::vector<BackendEntry>& backends) {
    std::string text;
    for (const BackendEntry& backend : backends) {
        std::string title(name(backend.backend));
        title.resize(6, ' ');
        if (backend.devices.empty()) text += title + "none: " + backend.reason + "\n";
        for (const DeviceInfo& device : backend.devices)
            text += formatted("{}{}: {}, {}, {}{}\n", title, device.ordinal, device.name, device.arch,
                              bytes_text(double(device.memory_bytes)),
                              device.driver.empty() ? "" : ", driver " + device.driver);
    }
    return text;
}

std::string devices_json(const std::vector<BackendEntry>& backends) {
    Json list = Json::array();
    Json reasons = Json::object();
    for (const BackendEntry& backend : backends) {
        const std::string title(name(backend.backend));
        if (backend.devices.empty()) reasons[title] = backend.reason;
        for (const DeviceInfo& device : backend.devices)
            list.push_back({{"backend", title},
                            {"ordinal", device.ordinal},
                            {"name", device.name},
                            {"arch", device.arch},
                            {"memory_bytes", device.memory_bytes},
                            {"driver", device.driver}});
    }
    Json json;
    json["devices"] = list;
    json["missing"] = reasons;
    return dumped(json);
}

}  // namespace kiln::cli
