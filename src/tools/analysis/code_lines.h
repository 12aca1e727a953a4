// SPDX-License-Identifier: Apache-2.0
//
// Maps each memory access of the compiled code to a line of the template, so that the access width that the
// compiler chose is known per line. Cubins only; needs no vendor tool.
#pragma once

#include <kiln/build.h>
#include <kiln/tools/analyze.h>

#include <vector>

namespace kiln {

/// The accesses to shared and global memory (sass_accesses) of a cubin's kernels, by line of the template, place in a header,
/// instruction and width, sorted in that order. The template is the file in which a kernel is defined; code that
/// was inlined from elsewhere counts for the innermost line of the template that led to it. Line 0 holds code for
/// which the compiler gives no line of the template: functions of headers that are called rather than inlined, and
/// code that it merged from several calls. Empty for other binaries, for those without line information, and where
/// the bytes can't be read. Thread-safe.
std::vector<CompiledAccess> compiled_accesses(const Binary& binary);

}  // namespace kiln
