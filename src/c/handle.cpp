// SPDX-License-Identifier: Apache-2.0
#include "c/handle.h"

#include <array>
#include <sstream>

namespace kiln::c_api {
namespace {

/// The destroyed handles of this process, the latest kRemembered: a misuse can be of any of them, whatever made it.
constexpr std::size_t kRemembered = 4096;
struct Destroyed {
    std::atomic<std::size_t> count{0};
    std::array<std::atomic<Handle*>, kRemembered> handles{};
};
// Never destroyed, since handles may be destroyed while a program ends. Without a lock, which fork() might find taken.
Destroyed& destroyed() {
    static Destroyed& all = *new Destroyed;
    return all;
}

const char* name_of(Mark mark) {
    switch (mark) {
        case Mark::destroyed:
            return "a destroyed handle";
        case Mark::service:
            return "a kiln_service";
        case Mark::template_:
            return "a kiln_template";
        case Mark::variant:
            return "a kiln_variant";
        case Mark::kernel:
            return "a kiln_kernel";
        case Mark::operation:
            return "a kiln_operation";
        case Mark::buffer:
            return "a kiln_buffer";
        case Mark::cache:
            return "a kiln_cache";
        case Mark::graph:
            return "a kiln_graph";
        case Mark::stop:
            return "a kiln_stop";
    }
    return "no handle of Kiln";
}

}  // namespace

void reject_handle(const void* handle, Mark found, const char* kind) {
    std::ostringstream message;
    message << "a " << kind << " was expected, and ";
    if (handle == nullptr)
        message << "NULL was given; did the call that makes it fail?";
    else if (reinterpret_cast<std::uintptr_t>(handle) % alignof(Handle) != 0)
        message << handle << " is no handle of Kiln";
    else
        message << handle << " is " << name_of(found);
    throw UsageError(message.str());
}

void retire(Handle& handle, Mark mark, const char* kind) {
    if (reinterpret_cast<std::uintptr_t>(&handle) % alignof(Handle) != 0)
        reject_handle(&handle, Mark::destroyed, kind);
    Mark found = mark;
    if (!handle.mark.compare_exchange_strong(found, Mark::destroyed)) reject_handle(&handle, found, kind);
}

void remember(Handle* handle) noexcept {
    Destroyed& all = destroyed();
    const std::size_t place = all.count.fetch_add(1, std::memory_order_relaxed) % kRemembered;
    delete all.handles[place].exchange(handle);
}

}  // namespace kiln::c_api
