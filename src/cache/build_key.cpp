// SPDX-License-Identifier: Apache-2.0
//
// The canonical key text.
#include "cache/build_key.h"

#include <string_view>

#include "base/digest.h"

namespace kiln {
namespace {

void append(std::string& text, std::string_view tag, std::string_view value) {
    text += tag;
    text += ' ';
    text += std::to_string(value.size());
    text += '\n';
    text += value;
    text += '\n';
}

BuildKey make_key(const Target& target, const CompilerFields* compiler,
                  const std::vector<std::string>& options, const Source& source) {
    std::string text = "kiln-key 1\n";
    append(text, "backend", name(target.backend));
    append(text, "arch", target.arch);
    if (compiler != nullptr) append(text, "compiler", compiler->identity);
    if (compiler != nullptr)
        for (const auto& variable : compiler->environment) append(text, "environment", variable);
    for (const auto& option : options) append(text, "option", option);
    if (compiler != nullptr)
        for (const auto& option : compiler->options) append(text, "compiler-option", option);
    append(text, "file", source.file_name);
    append(text, "entry", source.entry);
    for (const auto& entry : source.more_entries) append(text, "entry", entry);
    for (const auto& header : source.headers)
        append(text, "header", header.name + " " + digest_hex(header.text));
    if (!source.include_digest.empty()) append(text, "includes", source.include_digest);
    append(text, "source", source.text);
    std::string digest = digest_hex(text);
    return {std::move(digest), std::move(text)};
}

}  // namespace

BuildKey make_build_key(const Target& target, const CompilerFields& compiler,
                        const std::vector<std::string>& options, const Source& source) {
    return make_key(target, &compiler, options, source);
}

BuildKey make_open_key(const Target& target, const std::vector<std::string>& options, const Source& source) {
    return make_key(target, nullptr, options, source);
}

}  // namespace kiln
