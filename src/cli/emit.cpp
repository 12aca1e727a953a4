// SPDX-License-Identifier: Apache-2.0
//
// Writes the source, PTX, binary, log or key of a variant.
#include "cli/emit.h"

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
    const Output output("--output", options.output.empty() ? "-" : options.output.string());
    output.check_json(options.json);
    if (options.emit == Emit::binary) output.check_terminal(terminal);
    if (output.is_standard_output())
        terminal.print(content);
    else
        output.write(content);
}

}  // namespace kiln::cli
