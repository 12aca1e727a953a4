// SPDX-License-Identifier: Apache-2.0
//
// Recording and replaying launches on the host.
#include "device/host_graph.h"

#include <algorithm>
#include <array>
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
    // A kernel may ask for its argument at any multiple of this.
    struct alignas(kTensorMapAlignment) Chunk {
        std::array<std::byte, kTensorMapAlignment> bytes;
    };
    struct Launch {
        std::shared_ptr<const HostModule> module;
        LaunchShape shape;
        std::vector<Chunk> values;
        std::vector<void*> arguments;  // into values
    };
    if (!first_) first_ = module;
    const auto launch = std::make_shared<Launch>();
    launch->module = std::move(module);
    launch->shape = shape;
    std::size_t chunks = 0;
    for (const std::size_t size : bytes) chunks += (size + sizeof(Chunk) - 1) / sizeof(Chunk);
    launch->values.resize(chunks);
    Chunk* place = launch->values.data();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        std::memcpy(place, arguments[i], bytes[i]);
        launch->arguments.push_back(place);
        place += (bytes[i] + sizeof(Chunk) - 1) / sizeof(Chunk);
    }
    steps_.emplace_back(
        [launch] { launch->module->launch(launch->shape, launch->arguments.data(), nullptr); });
}

void HostGraph::add_copy(void* destination, const void* source, std::size_t bytes) {
    steps_.emplace_back([=] { std::memcpy(destination, source, bytes); });
}

void HostGraph::add_fill(void* destination, std::uint32_t word, std::size_t bytes) {
    fills_.emplace_back([=] { fill_words(destination, word, bytes); });
    steps_.push_back(fills_.back());
}

void HostGraph::launch(void*) {
    Driver::LaunchLock lock;
    if (first_) lock = first_->lock_launches();
    try {
        for (const auto& step : steps_) step();
    } catch (...) {
        for (const auto& fill : fills_) fill();
        throw;
    }
}

}  // namespace kiln
