// SPDX-License-Identifier: Apache-2.0
//
// Which includes of a specialised source may be compiled once for all variants of its template: those that its text
// begins with and that come from include directories or from the prelude.
//
// They stand behind the constants, and are compiled in front of them. A header's meaning could change by that only where it
// uses a name that is declared by the constants: it then lacks that name and does not compile, and the source is compiled
// as it stands. What stays in the source does not include them again, since a header without a guard may then say something
// else.
#pragma once

#include <kiln/build.h>

#include <string>

namespace kiln {

/// The #include lines, that of kiln/device.h first; empty where there is none of an include directory.
std::string hoisted_includes(const Source& source);
/// The source's text with these lines blank, so that all others keep their numbers.
std::string without_hoisted_includes(const Source& source);

}  // namespace kiln
