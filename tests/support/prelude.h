// SPDX-License-Identifier: Apache-2.0
//
// A Source from a kernel's text, with the headers of the prelude that the library carries.
#pragma once

#include <kiln/build.h>

#include <string>
#include <utility>

#include "template/embedded.h"

namespace kiln::test {

inline Source prelude_source(std::string entry, const std::string& body) {
    Source source{entry + ".cu", std::move(entry), "#include \"kiln/device.h\"\n" + body, {}};
    for (const EmbeddedFile& file : embedded_files()) {
        if (file.name.starts_with("kiln/"))
            source.headers.push_back({std::string(file.name), std::string(file.text)});
    }
    return source;
}

}  // namespace kiln::test
