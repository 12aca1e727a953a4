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

namespace {

/// Of a file that was emitted before.
std::pair<std::string, std::vector<std::string_view>> marks_of(Emit what) {
    switch (what) {
        case Emit::source:
            return {"specialised source", {"\n#line 1 \""}};
        case Emit::ptx:
        case Emit::binary:
            return {"binary", binary_marks()};
        case Emit::log:
            return {"log", {}};  // any text of a compiler: nothing tells whose it is
        case Emit::key:
            return {"key", {"\nkiln-key "}};
    }
    return {};
}

}  // namespace

void write_emitted(const std::string& content, const Options& options, const Terminal& terminal) {
    const Output output("--output", options.output.empty() ? "-" : options.output.string());
    output.check_json(options.json);
    if (options.emit == Emit::binary) output.check_terminal(terminal);
    const auto [what, marks] = marks_of(*options.emit);
    if (!marks.empty()) output.check_replaces(what, marks);
    if (output.is_standard_output())
        terminal.print(content);
    else
        output.write(content);
}

}  // namespace kiln::cli
