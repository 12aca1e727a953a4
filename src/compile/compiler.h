// SPDX-License-Identifier: Apache-2.0
//
// Compiler: Source x Target -> Binary, or BuildError. One implementation per runtime compiler, each
// found and opened at run time. Looking up a compiler's identity must be cheap (it is part of every
// key, so a warm start pays for it); opening it may be dear and happens at the first compile.
#pragma once

#include <kiln/build.h>
#include <kiln/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/worker_pool.h"

namespace kiln {

/// Where a compile runs.
enum class Isolation {
    here,   ///< in this process where the compiler allows it
    worker  ///< in a process of its own
};

/// Thread-safe: any number of threads may compile at once.
class Compiler {
  public:
    virtual ~Compiler() = default;

    /// The compiler's true identity for the key: product and build, never a path.
    /// Throws BuildError when the compiler is not there (saying where it was looked for).
    virtual std::string identity() = 0;
    /// The options for this target and source, all of which reach the key.
    virtual std::vector<std::string> options(const Target& target, const Source& source) = 0;
    /// Throws BuildError; a returned binary is complete.
    virtual Binary compile(const Source& source, const Target& target,
                           Isolation isolation = Isolation::here) = 0;
    /// For people: product, version, build, where it was found.
    virtual std::string description() = 0;
    /// The architectures it can compile for; empty when it can't tell.
    virtual std::vector<std::string> supported_archs() { return {}; }
};

/// NVRTC through dlopen. KILN_NVRTC names the library; else the toolkit, the wheels and the loader's
/// own places are searched.
class NvrtcCompiler : public Compiler {
  public:
    virtual std::string ptx(const Source& source, const Target& target) = 0;
};
/// Without workers everything compiles in this process.
std::unique_ptr<NvrtcCompiler> make_nvrtc_compiler(std::shared_ptr<WorkerPool> workers = nullptr);

/// hipRTC, always in a worker, since it aborts on what it does not know.
std::unique_ptr<Compiler> make_hiprtc_compiler(std::shared_ptr<WorkerPool> workers);

enum class HostBuild {
    fast,
    recorded  ///< tells of its accesses to memory (kiln/observe.h), and is several times slower
};
/// The system's C++ compiler (KILN_HOST_CXX, else c++, g++, clang++), a process anyway, within these limits.
std::unique_ptr<Compiler> make_host_compiler(const WorkerLimits& limits, HostBuild build = HostBuild::fast);

}  // namespace kiln
