// SPDX-License-Identifier: Apache-2.0
//
// What is emitted, and where to.
#include "cli/emit.h"

#include <kiln/error.h>

#include "cli/output_file.h"

namespace kiln::cli {

std::string emitted(Service& service, const Variant& variant, Emit what) {
    switch (what) {
        case Emit::source:
            return service.source(variant).text;
        case Emit::ptx:
            return service.ptx(variant);
        case Emit::log:
            return service.compile(variant).binary.log;
        case Emit::binary: {
            const Binary binary = service.compile(variant).binary;
            return {reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size()};
        }
        case Emit::key: {
            const BuildKey key = service.key(variant);
            return key.digest + "\n" + key.text;
        }
    }
    return {};
}

void write_emitted(const std::string& content, const Options& options, const Terminal& terminal) {
    if (options.output.empty()) {
        if (options.emit == Emit::binary && terminal.output_is_terminal())
            throw UsageError("a binary is not for a terminal: add --output FILE, or send it into a pipe.");
        terminal.print(content);
        return;
    }
    write_output(options.output, content);
}

}  // namespace kiln::cli
