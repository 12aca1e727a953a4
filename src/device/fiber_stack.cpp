// SPDX-License-Identifier: Apache-2.0
//
// The layout of a slab: guard page, stack, guard page, stack, ...
#include "device/fiber_stack.h"

#include <kiln/error.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "device/fiber_context.h"  // KILN_ASAN
#include "format/format.h"
#ifdef KILN_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace kiln {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kStackBytes = 128 * 1024;
constexpr std::size_t kStride = kPageBytes + kStackBytes;
constexpr std::size_t kStacksPerSlab = 64;
constexpr std::size_t kSlabBytes = kStacksPerSlab * kStride;

// Equally aligned stacks would keep their hot ends in the same few cache sets: 256 fibers evict each
// other from a cache that could hold them all. So the tops are spread over a page.
constexpr std::size_t kColors = 8;
constexpr std::size_t kColorBytes = kPageBytes / kColors;

#ifndef MADV_GUARD_INSTALL
constexpr int MADV_GUARD_INSTALL = 102;  // Linux 6.13: a guard that does not split the mapping
#endif

// Where that is missing each guard costs two of the 65530 mappings that a process may have.
constexpr int kMostSplittingGuards = 8192;
std::atomic<int> splitting_guards{0};

void guard(std::byte* page) {
    if (::madvise(page, kPageBytes, MADV_GUARD_INSTALL) == 0) return;
    if (splitting_guards.fetch_add(1) >= kMostSplittingGuards ||
        ::mprotect(page, kPageBytes, PROT_NONE) != 0) {
        splitting_guards.fetch_sub(1);
    }
}

}  // namespace

FiberStacks::~FiberStacks() {
    for (std::byte* slab : slabs_) {
#ifdef KILN_ASAN
        // Fibers that did not end left marks here; what is mapped here next would inherit them.
        __asan_unpoison_memory_region(slab, kSlabBytes);
#endif
        ::munmap(slab, kSlabBytes);
    }
}

FiberStack FiberStacks::take() {
    const std::size_t index = taken_ % kStacksPerSlab;
    if (index == 0) {
        slabs_.reserve(slabs_.size() + 1);
        void* slab = ::mmap(nullptr, kSlabBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (slab == MAP_FAILED) {
            throw DeviceError(
                formatted("The host device could not map {} KiB for the stacks of a block's threads ({}). "
                          "Fewer threads per block, or a smaller KILN_HOST_THREADS, need less.",
                          kSlabBytes / 1024, std::strerror(errno)),
                "mmap", errno);
        }
        ::madvise(slab, kSlabBytes, MADV_NOHUGEPAGE);
        slabs_.push_back(static_cast<std::byte*>(slab));
    }
    std::byte* const page = slabs_.back() + index * kStride;
    guard(page);
    const std::size_t color = taken_++ % kColors;
    return {page + kPageBytes, kStackBytes - color * kColorBytes};
}

}  // namespace kiln
