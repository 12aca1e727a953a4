// SPDX-License-Identifier: Apache-2.0
//
// Reading is strict: a text that make_build_key could not have written is not a key.
#include "cache/key_text.h"

#include <charconv>
#include <cstdint>

#include "cache/key_source.h"

namespace kiln {
namespace {

constexpr std::string_view kKeyLine = "kiln-key 1\n";

enum class Occurs { once, at_least_once, at_most_once, any_number };

struct Field {
    std::string_view tag;
    Occurs occurs = Occurs::once;
    constexpr bool is_needed() const { return occurs == Occurs::once || occurs == Occurs::at_least_once; }
    constexpr bool may_repeat() const {
        return occurs == Occurs::at_least_once || occurs == Occurs::any_number;
    }
};
constexpr std::string_view kIncludes = "includes";
constexpr Field kFields[] = {{"backend"},
                             {"arch"},
                             {"compiler"},
                             {"environment", Occurs::any_number},
                             {"option", Occurs::any_number},
                             {"compiler-option", Occurs::any_number},
                             {"file"},
                             {"entry", Occurs::at_least_once},
                             {"header", Occurs::any_number},
                             {kIncludes, Occurs::at_most_once},
                             {"source"}};
constexpr bool is_of_compiler(std::string_view tag) {
    return tag == "compiler" || tag == "environment" || tag == "compiler-option";
}

/// Takes "tag length\nvalue\n" from the front of the text when it begins with that tag.
std::optional<std::string_view> take_field(std::string_view& text, std::string_view tag) {
    std::string_view rest = text;
    if (!rest.starts_with(tag)) return std::nullopt;
    rest.remove_prefix(tag.size());
    if (!rest.starts_with(' ')) return std::nullopt;
    rest.remove_prefix(1);
    std::uint64_t length = 0;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    if (error != std::errc()) return std::nullopt;
    const auto digits = static_cast<std::size_t>(stop - rest.data());
    if (digits > 1 && rest.front() == '0') return std::nullopt;
    rest.remove_prefix(digits);
    // Two newlines in addition to the value.
    if (rest.size() < 2 || length > rest.size() - 2 || rest[0] != '\n' || rest[length + 1] != '\n')
        return std::nullopt;
    text = rest.substr(length + 2);
    return rest.substr(1, length);
}

std::optional<Backend> backend_of(std::string_view text) {
    for (const Backend backend : {Backend::cuda, Backend::hip, Backend::host})
        if (text == name(backend)) return backend;
    return std::nullopt;
}

}  // namespace

std::optional<std::vector<Ingredient>> parse_key_text(std::string_view text) {
    if (!text.starts_with(kKeyLine)) return std::nullopt;
    text.remove_prefix(kKeyLine.size());
    std::vector<Ingredient> ingredients;
    for (const Field& field : kFields) {
        auto value = take_field(text, field.tag);
        if (!value && field.is_needed()) return std::nullopt;
        while (value) {
            ingredients.push_back({field.tag, *value});
            if (!field.may_repeat()) break;
            value = take_field(text, field.tag);
        }
    }
    if (!text.empty()) return std::nullopt;
    return ingredients;
}

bool is_made_by_any(std::string_view key_text, std::string_view open_text, Includes includes) {
    if (!key_text.starts_with(kKeyLine) || !open_text.starts_with(kKeyLine)) return false;
    key_text.remove_prefix(kKeyLine.size());
    open_text.remove_prefix(kKeyLine.size());
    bool has_compiler = false;
    for (const Field& field : kFields) {
        if (is_of_compiler(field.tag)) {
            while (take_field(key_text, field.tag)) has_compiler = true;
            continue;
        }
        // The last fields are most of the text: the first difference ends it.
        for (;;) {
            const auto one = take_field(key_text, field.tag), other = take_field(open_text, field.tag);
            if (one != other && !(includes == Includes::any && field.tag == kIncludes)) return false;
            if (!one || !field.may_repeat()) break;
        }
    }
    return has_compiler && key_text.empty() && open_text.empty();
}

std::optional<KeySummary> summarise_key(std::string_view text) {
    const auto ingredients = parse_key_text(text);
    if (!ingredients) return std::nullopt;
    KeySummary summary;
    for (const Ingredient& ingredient : *ingredients) {
        if (ingredient.tag == "backend") {
            const auto backend = backend_of(ingredient.value);
            if (!backend) return std::nullopt;
            summary.backend = *backend;
        } else if (ingredient.tag == "arch") {
            summary.arch = ingredient.value;
        } else if (ingredient.tag == "entry" && summary.kernel.empty()) {  // the first
            summary.kernel = ingredient.value;
            summary.variant = ingredient.value;
        } else if (ingredient.tag == "source") {
            for (const KeyConstant& constant : split_source(ingredient.value).constants) {
                summary.variant += ' ';
                summary.variant += constant.name;
                summary.variant += '=';
                summary.variant += constant.value;
            }
        }
    }
    return summary;
}

}  // namespace kiln
