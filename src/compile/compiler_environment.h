// SPDX-License-Identifier: Apache-2.0
//
// The environment variables that the compilers read, and how each is handled, in one table
// (compiler_environment.cpp). A key identifies a binary only if all that determines it is in the key: so a
// variable that can change the output either becomes an ingredient of the key, with its value, or is kept from the
// compiler's process.
#pragma once

#include <kiln/error.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

enum class CompilerKind { nvrtc, hiprtc, host };

enum class VariableTreatment {
    ingredient,  ///< its value is in the key, and reaches the compiler
    withheld,    ///< it names files, options or code, or makes files: the compiler's process does not see it
    harmless     ///< it changes no byte of the output, though its name looks like those that do
};

/// What the table says of a variable; harmless when the compiler does not read it.
VariableTreatment treatment_of(CompilerKind kind, std::string_view name);

using Variable = std::pair<std::string, std::string>;  ///< name and value

/// Of this process's environment at one moment: what matters to a compiler.
struct CompilerEnvironment {
    std::vector<Variable> ingredients;  ///< sorted by name
    std::vector<std::string> withheld;  ///< names, sorted

    /// Nothing is set: a compile in this process gives the bytes of one in a clean process.
    bool empty() const { return ingredients.empty() && withheld.empty(); }
};
CompilerEnvironment compiler_environment(CompilerKind kind);

/// " NV_NVVM_VERSION is set to ... in the environment, and this compiler reads it ...": what a message about a
/// failure has to name; empty for none.
std::string environment_note(const std::vector<Variable>& variables);

/// The same error with that note.
BuildError with_note(const BuildError& error, const std::vector<Variable>& variables);

/// Where programs and libraries are looked for: a part of every question about what a compiler consists of.
std::string search_environment();

}  // namespace kiln
