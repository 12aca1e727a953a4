// SPDX-License-Identifier: Apache-2.0
//
// Compiler: Source x Target -> Binary, or BuildError. One implementation per runtime compiler, each
// found and opened at run time. Looking up a compiler's identity must be cheap (it is part of every
// key, so a warm start pays for it); opening it may be dear and happens at the first compile.
#pragma once

#include <kiln/build.h>
#include <kiln/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace kiln {

/// Thread-safe: any number of threads may compile at once.
class Compiler {
  public:
    virtual ~Compiler() = default;

    /// The compiler's true identity for the key: product and build, never a path.
    /// Throws BuildError when the compiler is not there (saying where it was looked for).
    virtual std::string identity() = 0;
    /// The options for this target, all of which reach the key.
    virtual std::vector<std::string> options(const Target& target) = 0;
    /// Throws BuildError; a returned binary is complete.
    virtual Binary compile(const Source& source, const Target& target) = 0;
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
std::unique_ptr<NvrtcCompiler> make_nvrtc_compiler();

/// hipRTC in a child process (kiln-compile-worker), since it aborts on what it does not know.
std::unique_ptr<Compiler> make_hiprtc_compiler(std::chrono::milliseconds timeout, std::stop_token stop = {});

/// The system's C++ compiler (KILN_HOST_CXX, else c++, g++, clang++).
std::unique_ptr<Compiler> make_host_compiler(std::chrono::milliseconds timeout, std::stop_token stop = {});

}  // namespace kiln
