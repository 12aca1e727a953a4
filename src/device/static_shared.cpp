// SPDX-License-Identifier: Apache-2.0
//
// The address comes from the function that compiled code itself calls for a thread-local variable of a library: the first
// call of an OS thread makes its copy.
#include "device/static_shared.h"

#include <dlfcn.h>

#include "device/shared_memory.h"

#ifdef __GLIBC__
// NOLINTNEXTLINE(bugprone-reserved-identifier): the C library's
extern "C" void* __tls_get_addr(void* of);
#endif

namespace kiln {

#ifdef __GLIBC__
void StaticShared::loaded(void* handle) {
    if (::dlinfo(handle, RTLD_DI_TLS_MODID, &module_) != 0) module_ = 0;
}

void StaticShared::poison(std::uint64_t number) const {
    if (module_ == 0) return;
    std::size_t start[] = {module_, 0};
    char* const own = static_cast<char*>(__tls_get_addr(&start[0]));
    for (const ThreadLocalRange& range : ranges_) poison_shared(own + range.offset, range.bytes, number);
}
#else
void StaticShared::loaded(void*) {}
void StaticShared::poison(std::uint64_t) const {}
#endif

}  // namespace kiln
