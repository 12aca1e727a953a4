// SPDX-License-Identifier: Apache-2.0
//
// Streams of the host, and launches captured on one: recorded with copies of their arguments.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "device/driver.h"

namespace kiln {

class HostModule;

/// Replays launches, and copies between them, one after the other.
class HostGraph final : public DeviceGraph {
  public:
    /// A launch that was checked already. arguments: bytes[i] of the value behind each pointer are copied.
    void add(std::shared_ptr<const HostModule> module, const LaunchShape& shape, void* const* arguments,
             const std::vector<std::size_t>& bytes);
    void add_copy(void* destination, const void* source, std::size_t bytes) {
        launches_.push_back({nullptr, {}, {}, {}, destination, source, bytes});
    }
    bool is_empty() const { return launches_.empty(); }

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
        // Without a module a copy.
        void* destination = nullptr;
        const void* source = nullptr;
        std::size_t bytes = 0;
    };

    std::vector<Launch> launches_;
};

/// A launch on it runs at once, or is recorded while `recording` is set.
struct HostStream {
    std::unique_ptr<HostGraph> recording;
};

/// The stream behind a handle; nullptr for the default streams, on which nothing is recorded.
inline HostStream* host_stream(void* handle) {
    return handle == StreamRef::per_thread_default().handle() ? nullptr : static_cast<HostStream*>(handle);
}

}  // namespace kiln
