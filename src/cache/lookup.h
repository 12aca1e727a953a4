// SPDX-License-Identifier: Apache-2.0
//
// Lookup: what a tier answers.
#pragma once

#include <kiln/build.h>

#include <optional>
#include <string>

namespace kiln {

struct Lookup {
    std::optional<Binary> binary;
    Bytes entry;           ///< the whole encoded entry that `binary` is a part of
    BuildKey key;          ///< of that entry; empty where it is the one that was looked for
    std::string place;     ///< the file or server, when something was there
    std::string rejected;  ///< a sentence on why an entry that is there was not used; empty otherwise
};

}  // namespace kiln
