// SPDX-License-Identifier: Apache-2.0
//
// Recording and replaying launches on the host.
#include "device/host_graph.h"

#include <cstring>
#include <utility>

#include "device/host_module.h"

namespace kiln {

void HostGraph::add(std::shared_ptr<const HostModule> module, const LaunchShape& shape,
                    void* const* arguments, const std::vector<std::size_t>& bytes) {
    Launch launch{std::move(module), shape, {}, {}, nullptr, nullptr, 0};
    std::size_t chunks = 0;
    for (const std::size_t size : bytes) chunks += (size + sizeof(Chunk) - 1) / sizeof(Chunk);
    launch.values.resize(chunks);
    Chunk* place = launch.values.data();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        std::memcpy(place, arguments[i], bytes[i]);
        launch.arguments.push_back(place);
        place += (bytes[i] + sizeof(Chunk) - 1) / sizeof(Chunk);
    }
    launches_.push_back(std::move(launch));
}

void HostGraph::launch(void*) {
    for (const Launch& launch : launches_)
        if (launch.module != nullptr)
            launch.module->launch(launch.shape, launch.arguments.data(), nullptr);
        else
            std::memcpy(launch.destination, launch.source, launch.bytes);
}

}  // namespace kiln
