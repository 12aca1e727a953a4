// SPDX-License-Identifier: Apache-2.0
//
// What a build depends on, as one canonical text and its digest. Everything that can change a compiler's
// output is an ingredient, and nothing else; paths are not.
#pragma once

#include <kiln/build.h>
#include <kiln/types.h>

#include <string>
#include <utility>
#include <vector>

namespace kiln {

/// The compiler's part of a key.
struct CompilerFields {
    std::string identity;
    std::vector<std::string>
        environment;  ///< "NAME=value" of each environment variable that may change its output
    std::vector<std::string> options;  ///< options that only this compiler has

    CompilerFields(std::string a_identity, std::vector<std::string> an_environment = {},
                   std::vector<std::string> own_options = {})
        : identity(std::move(a_identity)),
          environment(std::move(an_environment)),
          options(std::move(own_options)) {}
    CompilerFields(const char* an_identity) : identity(an_identity) {}
};

/// The text is "kiln-key 1\n" and then fields "tag length\nvalue\n" in a fixed order: backend, arch, compiler, each
/// environment, each option, each compiler-option, file (the virtual name, which debug information holds), entry,
/// each header (its name, a space, the BLAKE2b-256 of its content), includes (the digest of the headers from include
/// directories, if there are any), source. Lengths are in bytes, so that a value can't be mistaken for a field.
BuildKey make_build_key(const Target& target, const CompilerFields& compiler,
                        const std::vector<std::string>& options, const Source& source);

/// The same without the fields of a compiler (compiler, environment, compiler-option): what any compiler's entry of
/// this build also has. It is not a key, but is compared with the texts of keys (is_made_by_any in cache/key_text.h).
BuildKey make_open_key(const Target& target, const std::vector<std::string>& options, const Source& source);

}  // namespace kiln
