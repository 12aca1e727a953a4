// SPDX-License-Identifier: Apache-2.0
//
// Selects backend, device, target and compiler from the options of a service.
#pragma once

#include <kiln/device.h>
#include <kiln/service.h>
#include <kiln/types.h>

#include <memory>
#include <optional>
#include <string>

#include "cache/disk_cache.h"
#include "compile/compiler.h"
#include "compile/include_tree.h"

namespace kiln {

struct Selection {
    Target target;
    std::optional<Device> device;  ///< none when only compiling
};

/// Throws UsageError for a bad KILN_WORKERS.
WorkerLimits worker_limits(const ServiceOptions& options);

/// A memory next to the entries of that cache; nullptr: in this process alone.
SharedMemory disk_memory(std::shared_ptr<DiskCache> disk, DiskCache::Memory which);

/// Over the directories of the options, of KILN_INCLUDE_PATH, and of the platform of the compiler, which it refers to.
IncludeTree include_tree(const ServiceOptions& options, Compiler& compiler, SharedMemory memory);

/// What the options ask for, else the first that has a device. Throws UsageError.
Backend choose_backend(const ServiceOptions& options);
/// Throws UsageError (architecture), DeviceError (the backend that was asked for is not there).
Selection select_backend(const ServiceOptions& options);
/// Of an architecture that was asked for, is in no table and is not the device's own, whether the compiler knows it.
/// Throws UsageError when it does not; a warning when it can't be asked; else empty.
std::string check_arch_exists(const ServiceOptions& options, const Selection& selection, Compiler& compiler);
std::unique_ptr<Compiler> make_compiler(const ServiceOptions& options, Backend backend,
                                        const SharedMemory& memory);

}  // namespace kiln
