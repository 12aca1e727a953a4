// SPDX-License-Identifier: Apache-2.0
//
// On the host a kernel's name would be a C function's: one that is called free, memcpy, exp or main would take the
// place of the C library's, for the compiler or for the linker. So the kernel is defined under another name there.
#pragma once

#include <string>
#include <string_view>

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

}  // namespace kiln
