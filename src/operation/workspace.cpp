// SPDX-License-Identifier: Apache-2.0
//
// Memory that a stream outgrows is released in that stream's order, so that launches that use it still have it. Workspace that a
// captured launch uses is kept until the operation ends: its graph may be launched again at any time.
#include "operation/workspace.h"

#include <kiln/error.h>

#include <algorithm>
#include <exception>
#include <string>

#include "base/no_cancel.h"
#include "base/words.h"
#include "device/driver.h"
#include "format/format.h"

namespace kiln {
namespace {

// The default stream of each thread is another stream, with one handle for all: the thread tells them apart.
std::uintptr_t identity(StreamRef stream) {
    thread_local char mine;
    if (stream.is_native() && stream.handle() == StreamRef::per_thread_default().handle())
        return reinterpret_cast<std::uintptr_t>(&mine);
    return reinterpret_cast<std::uintptr_t>(stream.handle());
}

}  // namespace

Workspaces::Workspaces(const Device& device, WorkspaceAllocator allocator, std::size_t most_streams)
    : device_(device),
      allocator_(std::move(allocator)),
      most_streams_(std::max<std::size_t>(most_streams, 1)) {
    if (bool(allocator_.allocate) != bool(allocator_.release))
        throw UsageError(
            "a workspace allocator needs both of its functions, allocate and release; one of them is empty");
}

Workspaces::~Workspaces() { release(); }

std::shared_ptr<Workspaces::OfStream> Workspaces::of(std::uintptr_t stream) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(streams_, stream, [](const auto& one) { return one->stream; });
    if (found != streams_.end()) return *found;
    if (streams_.size() >= most_streams_) {
        const auto place = std::ranges::min_element(
            streams_, {}, [](const auto& one) { return one->last_use.load(std::memory_order_relaxed); });
        const std::shared_ptr<OfStream> oldest = std::move(*place);
        streams_.erase(place);
        const std::lock_guard of_stream(oldest->mutex);
        oldest->is_evicted = true;
        for (Memory* memory : {&oldest->zero, &oldest->plain})
            if (const Memory old = std::exchange(*memory, {}); !keep(old, oldest->last))
                free(old, oldest->last);
    }
    streams_.push_back(std::make_shared<OfStream>());
    streams_.back()->stream = stream;
    streams_.back()->last_use = ++time_;
    return streams_.back();
}

Workspaces::Lease Workspaces::lease(StreamRef stream, std::size_t zero_bytes, std::size_t plain_bytes,
                                    const Signature& signature, const ShapeKey& shape) {
    const std::uintptr_t id = identity(stream);
    const std::size_t slot = thread_slot();
    Last* const last = slot < kThreadSlots ? &last_[slot] : nullptr;
    std::shared_ptr<OfStream> memory = last != nullptr && last->stream == id ? last->memory : nullptr;
    std::unique_lock<std::mutex> lock;
    if (memory) lock = std::unique_lock(memory->mutex);
    while (!memory || memory->is_evicted) {
        if (lock) lock.unlock();
        memory = of(id);
        lock = std::unique_lock(memory->mutex);
        if (last != nullptr) *last = {id, memory};
    }
    memory->last = stream.plain();
    memory->last_use.store(time_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    const bool is_enough = memory->zero.bytes >= zero_bytes && memory->plain.bytes >= plain_bytes;
    if (!is_enough) {
        if (device_.is_capturing(stream))
            throw NotReadyError(
                "the workspace for " + signature.text(shape) + " (" + bytes_text(zero_bytes + plain_bytes) +
                    ") can't be allocated while the stream is being captured: call prepare() with "
                    "this shape and this stream before the capture begins",
                signature.sizes(shape));
        grow(memory->zero, zero_bytes, true, stream);
        grow(memory->plain, plain_bytes, false, stream);
    } else if (!(memory->zero.is_captured && memory->plain.is_captured) && device_.is_capturing(stream)) {
        memory->zero.is_captured = memory->plain.is_captured = true;
    }
    return {std::move(memory), std::move(lock)};
}

void Workspaces::grow(Memory& memory, std::size_t bytes, bool is_zero, StreamRef stream) {
    if (memory.bytes >= bytes) return;
    void* const data = allocator_.allocate ? allocator_.allocate(bytes, stream)
                                           : device_.driver()->allocate_async(bytes, stream.handle());
    if (data == nullptr)
        throw DeviceError("the workspace allocator gave no memory for " + bytes_text(bytes), "allocate");
    if (reinterpret_cast<std::uintptr_t>(data) % kWorkspaceAlignment != 0) {
        allocator_.release(data, bytes, stream);
        throw UsageError(formatted("the workspace allocator gave memory that is not aligned to {} bytes",
                                   kWorkspaceAlignment));
    }
    try {
        if (is_zero) device_.driver()->queue_fill(data, 0, bytes, stream.handle());
    } catch (...) {
        if (allocator_.release)
            allocator_.release(data, bytes, stream);
        else
            device_.driver()->release_async(data, stream.handle());
        throw;
    }
    const Memory old = std::exchange(memory, {data, bytes});
    if (old.data == nullptr || keep(old, stream)) return;
    if (allocator_.release)
        allocator_.release(old.data, old.bytes, stream);
    else
        device_.driver()->release_async(old.data, stream.handle());
}

void Workspaces::clear(const Lease& lease, StreamRef stream) noexcept {
    const NoCancel no_cancel;
    const Memory& zero = lease.memory_->zero;
    try {
        device_.driver()->queue_fill(zero.data, 0, zero.bytes, stream.handle());
    } catch (const std::exception&) {
        // the device is lost, and so is every launch that comes
    }
}

bool Workspaces::keep(const Memory& memory, StreamRef stream) {
    if (!memory.is_captured) return false;
    const std::lock_guard lock(kept_mutex_);
    kept_.push_back({memory, stream.plain()});
    return true;
}

// The stream may be gone: what is freed here is freed for all streams at once.
void Workspaces::free(const Memory& memory, StreamRef last) noexcept {
    if (memory.data == nullptr) return;
    if (allocator_.release)
        allocator_.release(memory.data, memory.bytes, last);
    else
        device_.driver()->release(memory.data);
}

std::size_t Workspaces::streams() const {
    const std::lock_guard lock(mutex_);
    return streams_.size();
}

std::size_t Workspaces::bytes() const {
    const std::lock_guard lock(mutex_);
    std::size_t bytes = 0;
    for (const auto& one : streams_) {
        const std::lock_guard of_stream(one->mutex);
        bytes += one->zero.bytes + one->plain.bytes;
    }
    const std::lock_guard kept(kept_mutex_);
    for (const auto& [memory, last] : kept_) bytes += memory.bytes;
    return bytes;
}

void Workspaces::release() {
    const std::lock_guard lock(mutex_);
    for (const auto& one : streams_) {
        const std::lock_guard of_stream(one->mutex);
        one->is_evicted = true;
        for (Memory* memory : {&one->zero, &one->plain}) free(std::exchange(*memory, {}), one->last);
    }
    streams_.clear();
    const std::lock_guard kept(kept_mutex_);
    for (const auto& [memory, last] : kept_) free(memory, last);
    kept_.clear();
}

}  // namespace kiln
