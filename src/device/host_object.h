// SPDX-License-Identifier: Apache-2.0
//
// A kernel's shared object as it lies in its file, before any of its code runs: what it exports, and its thread-local
// variables, which are the kernel's static shared memory.
#pragma once

#include <kiln/observe.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace kiln {

/// What an exported kiln_host_kernel holds.
struct HostObjectFacts {
    unsigned abi_version = 0;
    // Only of the version that this library speaks:
    std::vector<std::size_t> argument_bytes;
    bool tells_accesses = false;  ///< it has a log
};

/// nullopt: nothing of that name is exported, or it can't be read.
std::optional<HostObjectFacts> host_object_facts(std::span<const std::byte> bytes, std::string_view symbol);

/// Bytes of all variables that the kernel declared __shared__.
std::size_t static_shared_bytes(std::span<const std::byte> bytes);

/// A part of an OS thread's copy of the thread-local storage.
struct ThreadLocalRange {
    std::size_t offset = 0, bytes = 0;
};
/// Where these lie in it.
std::vector<ThreadLocalRange> shared_ranges(std::span<const std::byte> bytes);

/// Where these lie on this OS thread, by their addresses. anchor: what Kernel::anchor gave on it.
std::vector<SharedVariable> shared_variables(std::span<const std::byte> bytes, const void* anchor);

/// Where the object's code and data lie, from a place in it, once it is loaded; then its constants, which are read-only.
std::vector<MemoryRange> loaded_ranges(std::span<const std::byte> bytes, const void* place);

}  // namespace kiln
