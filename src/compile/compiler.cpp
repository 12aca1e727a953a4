// SPDX-License-Identifier: Apache-2.0
//
// Common to all compilers: checks that a binary was made from the ingredients of its key.
#include "compile/compiler.h"

#include <kiln/error.h>

#include "base/words.h"

namespace kiln {
namespace {

// A description of the differences.
std::string difference(const CompilerIngredients& one, const CompilerIngredients& other) {
    std::vector<std::string> changed;
    if (one.identity != other.identity) changed.push_back("the compiler itself, which was replaced");
    const auto note = [&](const Variable& variable, const std::vector<Variable>& in) {
        for (const auto& there : in)
            if (there == variable) return;
        if (changed.empty() || changed.back() != variable.first) changed.push_back(variable.first);
    };
    for (const auto& variable : one.environment) note(variable, other.environment);
    for (const auto& variable : other.environment) note(variable, one.environment);
    return enumerate(changed);
}

}  // namespace

Binary Compiler::compile(const Source& source, const Target& target, const CompilerIngredients& as,
                         const CompilePlace& place) {
    const auto check = [&] {
        if (const CompilerIngredients now = ingredients(); now != as)
            throw BuildError("Something changed while " + source.file_name + " was being built: " +
                             difference(as, now) + ". Nothing was kept of it; build it again.");
    };
    check();
    Binary binary = compile_as(as, source, target, place);
    check();
    return binary;
}

std::string Compiler::linker_identity() {
    throw BuildError("LTO-IR is linked for CUDA only; other backends need the code in C++.");
}

Binary Compiler::link(const Source& source, const Target&, const Binary&) {
    throw BuildError(source.file_name +
                     ": LTO-IR is linked for CUDA only; other backends need the code in C++.");
}

}  // namespace kiln
