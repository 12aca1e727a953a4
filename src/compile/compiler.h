// SPDX-License-Identifier: Apache-2.0
//
// Compiler: Source x Target -> Binary, or BuildError. One implementation per runtime compiler, each
// found and opened at run time. Looking up a compiler's identity must be cheap (it is part of every
// key, so every start pays for it); opening it may be slow and happens at the first compile.
#pragma once

#include <kiln/build.h>
#include <kiln/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "compile/compiler_environment.h"
#include "compile/identity_memory.h"
#include "compile/worker_pool.h"

namespace kiln {

/// Where a compile runs.
enum class Isolation {
    here,   ///< in this process, if the compiler allows it
    worker  ///< in a separate process
};

/// Where a compile runs, and what ends it.
struct CompilePlace {
    CompilePlace(Isolation where = Isolation::here, std::stop_token ends = {})
        : isolation(where), stop(std::move(ends)) {}

    Isolation isolation;
    std::stop_token
        stop;  ///< of compilers that run in a process of their own, which is killed; in place of WorkerLimits::stop
};

/// The compiler's part of a key: for the same variant, another compiler has other values.
struct CompilerIngredients {
    std::string identity;               ///< product and the content of all its files, never a path
    std::vector<Variable> environment;  ///< environment variables that may change its output, sorted
    std::vector<std::string> options;   ///< options that only it has, after those of options()

    bool operator==(const CompilerIngredients&) const = default;
};

/// Thread-safe: any number of threads may compile at once.
class Compiler {
  public:
    virtual ~Compiler() = default;

    /// Its present ingredients. Throws BuildError when the compiler is missing (with the places that were
    /// searched).
    virtual CompilerIngredients ingredients() = 0;
    std::string identity() { return ingredients().identity; }
    /// What takes time at a first compile and needs no source, such as opening the library. Throws as ingredients().
    virtual void prepare() { static_cast<void>(ingredients()); }
    /// The options for this target and source with any compiler. All of them are part of the key.
    virtual std::vector<std::string> options(const Target& target, const Source& source) = 0;
    /// Throws BuildError, also when the compiler or its environment differs from `as`. A returned binary is
    /// complete and made from these ingredients.
    Binary compile(const Source& source, const Target& target, const CompilerIngredients& as,
                   const CompilePlace& place = {});
    Binary compile(const Source& source, const Target& target, const CompilePlace& place = {}) {
        return compile(source, target, ingredients(), place);
    }
    /// What links LTO-IR, by its content, as in ingredients(). Throws BuildError where nothing does.
    virtual std::string linker_identity();
    /// The options that it is given for this target and source. All of them are part of the key.
    virtual std::vector<std::string> link_options(const Target&, const Source&) { return {}; }
    /// Links the LTO-IR that this compiler made of a source (Source::to_ltoir) with that of callers, Source::linked, into
    /// a binary for this target. Throws BuildError.
    virtual Binary link(const Source& source, const Target& target, const Binary& ltoir);
    /// For people: product, version, build, where it was found.
    virtual std::string description() = 0;
    /// Where the headers of its platform are, such as cuda_fp16.h and those of CCCL; they need not exist.
    virtual std::vector<std::filesystem::path> include_directories() { return {}; }
    /// The architectures it can compile for; empty when it can't tell.
    virtual std::vector<std::string> supported_archs() { return {}; }

  private:
    virtual Binary compile_as(const CompilerIngredients& as, const Source& source, const Target& target,
                              const CompilePlace& place) = 0;
};

/// Where compilers remember their identities. Never nullptr.
using SharedMemory = std::shared_ptr<IdentityMemory>;
inline SharedMemory process_memory() { return std::make_shared<IdentityMemory>(); }

/// NVRTC through dlopen. KILN_NVRTC names the library; else the toolkit, the wheels and the loader's own places
/// are searched. If the environment has a variable that would affect it, it runs in a worker, with the
/// environment of its ingredients.
class NvrtcCompiler : public Compiler {
  public:
    virtual std::string ptx(const Source& source, const Target& target) = 0;
    /// Milliseconds of each phase of a compile: Service::compile_phases.
    virtual std::vector<std::pair<std::string, double>> phases(const Source& source,
                                                               const Target& target) = 0;
};
/// Without workers everything compiles in this process.
std::unique_ptr<NvrtcCompiler> make_nvrtc_compiler(std::shared_ptr<WorkerPool> workers = nullptr,
                                                   SharedMemory memory = process_memory());

/// hipRTC, always in a worker, since it aborts on unknown architectures.
std::unique_ptr<Compiler> make_hiprtc_compiler(std::shared_ptr<WorkerPool> workers,
                                               SharedMemory memory = process_memory());

enum class HostBuild {
    fast,
    recorded  ///< reports its accesses to memory (kiln/observe.h), and is several times slower
};
/// The system's C++ compiler (KILN_HOST_CXX, else c++, g++, clang++), a process anyway, within these limits.
std::unique_ptr<Compiler> make_host_compiler(const WorkerLimits& limits, HostBuild build = HostBuild::fast,
                                             SharedMemory memory = process_memory());

}  // namespace kiln
