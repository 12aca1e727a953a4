// SPDX-License-Identifier: Apache-2.0
//
// Streams of the host, and launches captured on one: recorded with copies of their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "device/driver.h"

namespace kiln {

class HostModule;

/// A number of bytes that is no multiple of four ends with the first bytes of the word.
void fill_words(void* destination, std::uint32_t word, std::size_t bytes);

/// Replays launches, and copies and fills between them, one after the other, with no other launch between. Where one fails, the
/// fills are done once more: what they fill is not left as that launch left it.
class HostGraph final : public DeviceGraph {
  public:
    /// A launch that was checked already. arguments: bytes[i] of the value behind each pointer are copied.
    void add(std::shared_ptr<const HostModule> module, const LaunchShape& shape, void* const* arguments,
             const std::vector<std::size_t>& bytes);
    void add_copy(void* destination, const void* source, std::size_t bytes);
    void add_fill(void* destination, std::uint32_t word, std::size_t bytes);
    bool is_empty() const { return steps_.empty(); }

    void launch(void* stream) override;

  private:
    std::shared_ptr<const HostModule> first_;  // of the launches; null: there is none
    std::vector<std::function<void()>> steps_;
    std::vector<std::function<void()>> fills_;  // of the steps
};

/// What is queued on it runs at once, or is recorded while `recording` is set.
struct HostStream {
    std::unique_ptr<HostGraph> recording;
};

/// The stream behind a handle; nullptr for the default streams, on which nothing is recorded.
inline HostStream* host_stream(void* handle) {
    return handle == StreamRef::per_thread_default().handle() ? nullptr : static_cast<HostStream*>(handle);
}

/// What records the work that is queued on a stream; nullptr: it runs at once.
inline HostGraph* recording(void* stream) {
    const HostStream* const queue = host_stream(stream);
    return queue == nullptr ? nullptr : queue->recording.get();
}

}  // namespace kiln
