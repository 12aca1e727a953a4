// SPDX-License-Identifier: Apache-2.0
//
// Lookup: the result of a tier.
#pragma once

#include <kiln/build.h>

#include <optional>
#include <string>

namespace kiln {

struct Lookup {
    std::optional<Binary> binary;
    Bytes entry;           ///< the whole encoded entry that `binary` is a part of
    BuildKey key;          ///< the key of that entry; empty if it is the requested one
    std::string place;     ///< the file or server, when something was there
    std::string rejected;  ///< a sentence on why an existing entry was not used; else empty
};

}  // namespace kiln
