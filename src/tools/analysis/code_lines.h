// SPDX-License-Identifier: Apache-2.0
//
// Which line of the template each memory access of the compiled code belongs to, so that the width that the
// compiler chose is known per line. Cubins only; needs no vendor's program.
#pragma once

#include <kiln/build.h>
#include <kiln/tools/analyze.h>

#include <vector>

namespace kiln {

/// The accesses to shared and global memory (sass_accesses) of a cubin, by line of the template, place in a header,
/// instruction and width, sorted in that order. The template is the file in which the kernel is defined; code that
/// was inlined from elsewhere counts for the innermost line of the template that led to it. Line 0 holds what the
/// compiler names no line of the template for: functions of headers that are called, and code that it made one of
/// several calls. Empty for other binaries, for those without line information, and where the bytes can't be read.
/// Thread-safe.
std::vector<CompiledAccess> compiled_accesses(const Binary& binary);

}  // namespace kiln
