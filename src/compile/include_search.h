// SPDX-License-Identifier: Apache-2.0
//
// The search for the headers that a source finds in include directories, and the texts that the compiler gets of them.
//
// A name is looked for as a preprocessor does: "name" next to the header that names it, then, like <name>, in the
// directories in their order; #include_next goes on behind the directory where its own file was found. Names given by
// macros are followed through every value that the headers, the template and -D give these macros: without an argument, or with
// one in `<dir/ARGUMENT>`. A macro that asks as __has_include does, `#define HAS(x) __has_include(x)`, is followed, too.
//
// Each file has one name for the compiler, its path below its include directory, and lines that name it otherwise are given
// that name, since NVRTC compares names as they are written. What leads elsewhere, or where that is not sure, is given a name that
// nothing has: a compiler would look for it on the disk, past the key.
#pragma once

#include <kiln/build.h>

#include <filesystem>
#include <vector>

namespace kiln {

/// What include directories gave.
struct FoundIncludes {
    std::vector<Header> headers;                 ///< as the compiler is to see them, ordered by name
    std::vector<std::filesystem::path> watched;  ///< files and directories of which a change may change that
};

/// Everything that source.open_includes and what is found for them reach in these directories, absolute and in their order. Throws
/// BuildError for more than 20,000 headers or 128 MiB, for a header in which the assembler would read a file, and for a template
/// that asks for a file past the key by a macro of a header.
FoundIncludes find_includes(const Source& source, const std::vector<std::filesystem::path>& directories);

}  // namespace kiln
