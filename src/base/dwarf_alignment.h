// SPDX-License-Identifier: Apache-2.0
//
// The alignment that the declaration of a thread-local variable promises, by the debug information: what alignas says, or
// what its type needs. How the linker places the variable may be better. Not known of classes of 16 bytes and more without
// an alignas of that.
#pragma once

#include <cstdint>
#include <string>

#include "base/dwarf_api.h"

namespace kiln::dwarf {

/// Of the variable below `scope` at this offset of the thread-local storage; where several entries are of it, the most. 0: none,
/// or it is not known.
std::uint64_t alignment_of_thread_local(const Api& api, Entry scope, std::uint64_t offset);

}  // namespace kiln::dwarf
