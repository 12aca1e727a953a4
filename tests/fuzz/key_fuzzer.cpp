// SPDX-License-Identifier: Apache-2.0
//
// Key texts: any bytes, and keys made of random ingredients, which must come back and compare.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>

#include "cache/build_key.h"
#include "cache/key_text.h"
#include "fuzz.h"

namespace {

using namespace kiln;

bool is_one_short_line(const std::string& text) {
    return text.size() < 500 && std::ranges::all_of(text, [](char c) {
               return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
           });
}

void compare(std::string_view wanted, std::string_view found) {
    const auto differences = compare_keys(wanted, found);
    KILN_FUZZ_CHECK(differences.empty() == (wanted == found));
    for (const IngredientDifference& one : differences) {
        KILN_FUZZ_CHECK(!one.ingredient.empty() && is_one_short_line(one.ingredient));
        KILN_FUZZ_CHECK(is_one_short_line(one.wanted) && is_one_short_line(one.found));
        KILN_FUZZ_CHECK(!one.wanted.empty() || !one.found.empty());
    }
}

struct Made {
    BuildKey key;
    std::vector<std::string> values;
};

Made make(FuzzedDataProvider& input) {
    const auto text = [&] { return input.ConsumeRandomLengthString(200); };
    Target target{input.PickValueInArray({Backend::cuda, Backend::hip, Backend::host}), text(), {}};
    const std::string compiler = text();
    std::vector<std::string> options;
    while (input.ConsumeBool()) options.push_back(text());
    Source source{text(), text(), {}, {}};
    while (input.ConsumeBool()) source.headers.push_back({text(), text()});
    if (input.ConsumeBool()) {
        source.text = "#include \"kiln/device.h\"\n";
        while (input.ConsumeBool()) {
            source.text += input.PickValueInArray(
                {"constexpr int ", "constexpr long long ", "constexpr bool ", "using "});
            source.text += text() + " = " + text() + ";\n";
        }
        source.text += "#line 1 \"k.cu\"\n";
    }
    source.text += text();

    Made made{make_build_key(target, compiler, options, source), {}};
    made.values = {std::string(name(target.backend)), target.arch, compiler};
    made.values.insert(made.values.end(), options.begin(), options.end());
    made.values.insert(made.values.end(), {source.file_name, source.entry});
    for (const Header& header : source.headers)
        made.values.push_back(header.name + " " + digest_hex(header.text));
    made.values.push_back(source.text);
    return made;
}

void check_made(const Made& made) {
    const auto ingredients = parse_key_text(made.key.text);
    KILN_FUZZ_CHECK(ingredients && ingredients->size() == made.values.size());
    for (std::size_t i = 0; i < made.values.size(); ++i)
        KILN_FUZZ_CHECK((*ingredients)[i].value == made.values[i]);
    KILN_FUZZ_CHECK(summarise_key(made.key.text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = fuzz::text_of(data, size);
    const auto ingredients = parse_key_text(text);
    if (summarise_key(text)) KILN_FUZZ_CHECK(ingredients);

    FuzzedDataProvider input(data, size);
    const Made a = make(input);
    const Made b = make(input);
    check_made(a);
    check_made(b);
    compare(a.key.text, b.key.text);
    compare(a.key.text, a.key.text);
    compare(text, a.key.text);
    if (size > 0) compare(text, text.substr(0, size - 1));
    return 0;
}
