// SPDX-License-Identifier: Apache-2.0
//
// What a build depends on, as one canonical text and its digest. Everything that can change a
// compiler's output is an ingredient; nothing else is, a path least of all.
#pragma once

#include <kiln/build.h>
#include <kiln/types.h>

#include <string>
#include <vector>

namespace kiln {

/// The text is "kiln-key 1\n" and then fields "tag length\nvalue\n" in a fixed order: backend, arch,
/// compiler, each option, file (the virtual name, which debug information holds), entry, each header
/// (its name, a space, the BLAKE2b-256 of its content), source. Lengths are in bytes, so that no value
/// can pass for a field.
BuildKey make_build_key(const Target& target, const std::string& compiler_identity,
                        const std::vector<std::string>& options, const Source& source);

}  // namespace kiln
