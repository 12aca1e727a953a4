// SPDX-License-Identifier: Apache-2.0
//
// Manifests: any bytes give lines or a TemplateError with its place; what was read can be written and read
// again; lines give variants of a template or a TemplateError.
#include <kiln/error.h>
#include <kiln/manifest.h>

#include <algorithm>
#include <string>

#include "fuzz.h"

namespace {

using namespace kiln;

const Template& sample() {
    static const Template sample = Template::parse(
        "//@ kernel k\n"
        "//@ param BM int in 16, 32, 64 = 32\n"
        "//@ param BN int in -1, 32, 9223372036854775807 = 32\n"
        "//@ param T type in half, float, int8_t = half\n"
        "//@ param V bool = false\n"
        "//@ param R int in -5..2000000 = 1\n"
        "//@ require BM <= BN\n"
        "//@ block 32\n//@ grid n\nextern \"C\" __global__ void k(int n) {}\n",
        "k.cu");
    return sample;
}

std::string written(const ManifestLine& line) {
    std::string text = line.template_name;
    for (const auto& [name, values] : line.values) {
        text += " " + name + "=";
        for (const std::string& value : values) text += (text.back() == '=' ? "" : ",") + value;
    }
    for (const ManifestTarget& target : line.targets) {
        text += " @" + std::string(name(target.backend));
        if (!target.arch.empty()) text += ":" + target.arch;
    }
    return text;
}

void expand(const ManifestLine& line) {
    // A long list of legal values is work, not a finding.
    std::size_t values = 0;
    for (const auto& [name, list] : line.values) values += list.size();
    if (values > 100) return;
    try {
        const auto variants = line.variants(sample(), "m");
        KILN_FUZZ_CHECK(!variants.empty());
        for (std::size_t i = 1; i < variants.size(); ++i) KILN_FUZZ_CHECK(!(variants[i - 1] == variants[i]));
    } catch (const TemplateError& error) {
        KILN_FUZZ_CHECK(error.line() == line.line && error.column() == 1);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = fuzz::text_of(data, size);
    try {
        const Manifest manifest = Manifest::parse(text, "m");
        for (const ManifestLine& line : manifest.lines) {
            const Manifest again = Manifest::parse(written(line), "m");
            KILN_FUZZ_CHECK(again.lines.size() == 1);
            KILN_FUZZ_CHECK(again.lines[0].template_name == line.template_name);
            KILN_FUZZ_CHECK(again.lines[0].values == line.values && again.lines[0].targets == line.targets);
            expand(line);
        }
    } catch (const TemplateError& error) {
        const auto lines = std::ranges::count(text, '\n') + 1;
        KILN_FUZZ_CHECK(error.line() >= 1 && error.line() <= lines && error.column() >= 1);
        KILN_FUZZ_CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
    }
    return 0;
}
