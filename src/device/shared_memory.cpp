// SPDX-License-Identifier: Apache-2.0
//
// The memory ends where its room ends, rounded up to its alignment: so an access behind it meets the guard.
#include "device/shared_memory.h"

#include <kiln/error.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>

#include "format/format.h"

namespace kiln {
namespace {

constexpr std::size_t kMapPageBytes = 4096;
constexpr std::byte kPattern{0xa7};  // as a float or half no number that a kernel is likely to store

std::size_t rounded_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

bool holds_pattern(const std::byte* begin, std::size_t bytes) {
    return bytes == 0 || (*begin == kPattern && std::memcmp(begin, begin + 1, bytes - 1) == 0);
}

}  // namespace

void poison_shared(void* memory, std::size_t bytes, std::uint64_t number) {
    constexpr unsigned char kKinds[] = {0x7b, 0xfb, 0xff, 0};
    if (bytes != 0) std::memset(memory, kKinds[number % std::size(kKinds)], bytes);
}

DynamicSharedMemory::~DynamicSharedMemory() { release(); }

void DynamicSharedMemory::release() {
    if (room_ != nullptr) ::munmap(room_ - kGuardBytes, room_bytes_ + 2 * kGuardBytes);
    room_ = data_ = nullptr;
}

void DynamicSharedMemory::resize(std::size_t bytes, std::size_t margin) {
    if (data_ != nullptr && bytes == bytes_ && margin == margin_) return;
    const std::size_t reserved = rounded_up(bytes, kAlignment) + 2 * rounded_up(margin, kAlignment);
    if (room_ == nullptr || reserved > room_bytes_) {
        release();
        const std::size_t room = std::max(kMapPageBytes, rounded_up(reserved, kMapPageBytes));
        void* const all = ::mmap(nullptr, room + 2 * kGuardBytes, PROT_NONE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        std::byte* const start = static_cast<std::byte*>(all) + kGuardBytes;
        if (all == MAP_FAILED || ::mprotect(start, room, PROT_READ | PROT_WRITE) != 0) {
            const int error = errno;
            if (all != MAP_FAILED) ::munmap(all, room + 2 * kGuardBytes);
            throw DeviceError(
                formatted(
                    "The host device could not map {} bytes for the dynamic shared memory of a block ({}).",
                    room, std::strerror(error)),
                "mmap", error);
        }
        room_ = start;
        room_bytes_ = room;
    }
    bytes_ = bytes;
    margin_ = margin;
    data_ = room_ + room_bytes_ - rounded_up(margin, kAlignment) - rounded_up(bytes, kAlignment);
    // All of it, but for room that larger memory has left.
    before_ = margin != 0 ? 0 : std::min(static_cast<std::size_t>(data_ - room_), kMapPageBytes);
    behind_ = margin != 0 ? 0 : static_cast<std::size_t>(room_ + room_bytes_ - data_) - bytes;
    repair();
}

void DynamicSharedMemory::repair() {
    std::fill_n(data_ - before_, before_, kPattern);
    std::fill_n(data_ + bytes_, behind_, kPattern);
}

bool DynamicSharedMemory::is_whole() const {
    return holds_pattern(data_ - before_, before_) && holds_pattern(data_ + bytes_, behind_);
}

}  // namespace kiln
