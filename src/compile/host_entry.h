// SPDX-License-Identifier: Apache-2.0
//
// What of CUDA C++ no macro can make C++ of a host: the text that the host's compiler gets differs from the template's in
// a few kinds of places, and in no line's number.
//
// On the host a kernel's name would be a C function's: one that is called free, memcpy, exp or main would take the
// place of the C library's, for the compiler or for the linker. So the kernel is defined under another name there.
#pragma once

#include <kiln/build.h>

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// In front of a kernel's name on the host.
inline constexpr std::string_view kHostEntryPrefix = "kiln_entry_";

struct HostEntry {
    std::string text;
    std::string name;  ///< of the kernel in it
};

/// The source with that prefix before the name wherever a __global__ function of that name is declared. Calls of
/// other functions of the same name, comments and strings stay as they are, as does the number of lines. A source
/// that declares no such function stays as it is.
HostEntry with_host_entry(std::string_view text, std::string_view entry);

/// The source with each declaration `extern __shared__ T name[...];`, in either order, in a function as a reference to the block's dynamic
/// shared memory. In a namespace it becomes an error of the compiler that says what to write: there it can't be the running
/// block's.
std::string with_dynamic_shared(std::string_view text);

/// The source with `static __shared__` as `__shared__`, which is static here anyway, with `__shared__ alignas(16)` as
/// `alignas(16) __shared__`, and with KILN_HOST_NOINLINE for the keyword `__noinline__`, which is no macro: headers of the
/// system have it as an attribute's name.
std::string with_host_keywords(std::string_view text);

struct HostText {
    std::string text;
    std::vector<std::string> entries;  ///< the kernels' names, without the arguments of a C++ template
};

/// The source so that its kernels can be looked up: extern "C" ones have that prefix, and each is exported behind
/// them all, the first as kiln_host_kernel, the others as kiln_host_kernel_1, ...
HostText host_text(const Source& source);

}  // namespace kiln
