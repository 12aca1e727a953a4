// SPDX-License-Identifier: Apache-2.0
//
// Streams of the host, and launches captured on one: recorded with copies of their arguments.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "device/driver.h"
#include "device/host_executor.h"

namespace kiln {

class HostModule;

/// With this word; of a last one that is cut the first bytes.
void fill_words(void* destination, std::uint32_t word, std::size_t bytes);

/// Replays launches, and copies and fills between them, one after the other, with no other launch between.
class HostGraph final : public DeviceGraph {
  public:
    /// executor: gives the pool that launches run on.
    explicit HostGraph(std::function<HostExecutor&()> executor) : executor_(std::move(executor)) {}

    /// A launch that was checked already. arguments: bytes[i] of the value behind each pointer are copied.
    void add(std::shared_ptr<const HostModule> module, const LaunchShape& shape, void* const* arguments,
             const std::vector<std::size_t>& bytes);
    void add_copy(void* destination, const void* source, std::size_t bytes) {
        steps_.emplace_back(Copy{destination, source, bytes});
    }
    void add_fill(void* destination, std::uint32_t word, std::size_t bytes) {
        steps_.emplace_back(Fill{destination, word, bytes});
    }
    bool is_empty() const { return steps_.empty(); }

    void launch(void* stream) override;

  private:
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
    struct Copy {
        void* destination;
        const void* source;
        std::size_t bytes;
    };
    struct Fill {
        void* destination;
        std::uint32_t word;
        std::size_t bytes;
    };

    const std::function<HostExecutor&()> executor_;
    std::vector<std::variant<Launch, Copy, Fill>> steps_;
};

/// What is queued on it runs at once, or is recorded while `recording` is set.
struct HostStream {
    std::unique_ptr<HostGraph> recording;
};

/// The stream behind a handle; nullptr for the default streams, on which nothing is recorded.
inline HostStream* host_stream(void* handle) {
    return handle == StreamRef::per_thread_default().handle() ? nullptr : static_cast<HostStream*>(handle);
}

}  // namespace kiln
