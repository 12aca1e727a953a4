// SPDX-License-Identifier: Apache-2.0
//
// Recording and replaying launches on the host.
#include "device/host_graph.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/host_module.h"

namespace kiln {

void fill_words(void* destination, std::uint32_t word, std::size_t bytes) {
    std::fill_n(static_cast<std::uint32_t*>(destination), bytes / 4, word);
    std::memcpy(static_cast<std::byte*>(destination) + bytes / 4 * 4, &word, bytes % 4);
}

void HostGraph::add(std::shared_ptr<const HostModule> module, const LaunchShape& shape,
                    void* const* arguments, const std::vector<std::size_t>& bytes) {
    Launch launch{std::move(module), shape, {}, {}};
    std::size_t chunks = 0;
    for (const std::size_t size : bytes) chunks += (size + sizeof(Chunk) - 1) / sizeof(Chunk);
    launch.values.resize(chunks);
    Chunk* place = launch.values.data();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        std::memcpy(place, arguments[i], bytes[i]);
        launch.arguments.push_back(place);
        place += (bytes[i] + sizeof(Chunk) - 1) / sizeof(Chunk);
    }
    steps_.emplace_back(std::move(launch));
}

void HostGraph::launch(void*) {
    const Driver::Together together = executor_().together();
    for (const auto& step : steps_) {
        if (const auto* const launch = std::get_if<Launch>(&step))
            launch->module->launch(launch->shape, launch->arguments.data(), nullptr);
        else if (const auto* const copy = std::get_if<Copy>(&step))
            std::memcpy(copy->destination, copy->source, copy->bytes);
        else if (const auto* const fill = std::get_if<Fill>(&step))
            fill_words(fill->destination, fill->word, fill->bytes);
    }
}

}  // namespace kiln
