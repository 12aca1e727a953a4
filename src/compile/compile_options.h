// SPDX-License-Identifier: Apache-2.0
//
// Options that a template, a service or a command adds to a compile: which ones there are, what each is called by
// the backend's compiler, and which are Kiln's own to set.
#pragma once

#include <kiln/build.h>

#include <string>
#include <vector>

namespace kiln {

/// The standard that kernels are compiled with where no option says another.
inline constexpr const char* kStandard = "c++20";

struct CompileOptions {
    std::string standard = kStandard;  ///< "c++20"
    bool debug = false;                ///< -G: code for a debugger
    std::vector<std::string> others;   ///< as this backend's compiler spells them, in their order
};

/// Which of a backend's options count.
enum class OptionUse {
    all,
    language  ///< those that say what the source means, not how it is translated: -D, -U, -std, warnings
};

/// What source.options are for the target's compiler; those whose scope is another backend or architecture are left
/// out. Throws TemplateError for a line of a template and UsageError for any other option: one that this compiler
/// lacks, that Kiln sets itself, or that has no or a wrong value.
CompileOptions compile_options(const Target& target, const Source& source, OptionUse use = OptionUse::all);

/// The lines that would define the macros that the source's options define, for whatever backend and architecture: "#define A 1\n".
/// Throws as compile_options() does for an option that can't be taken apart.
std::vector<std::string> macro_definitions(const Source& source);

}  // namespace kiln
