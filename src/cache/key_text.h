// SPDX-License-Identifier: Apache-2.0
//
// Parses a key's text: its ingredients, and what they say about the variant.
#pragma once

#include <kiln/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// "arch" -> "sm_90a"; views into the text.
struct Ingredient {
    std::string_view tag;
    std::string_view value;
};

/// nullopt when the text is not a key (see build_key.h). Does not throw for any text.
std::optional<std::vector<Ingredient>> parse_key_text(std::string_view text);

/// Which headers of include directories an entry of another key may be made with.
enum class Includes {
    same,
    any  ///< also others than those here, or than none
};
/// True when this key's text is that of the open key (make_open_key) with the fields of some compiler added.
bool is_made_by_any(std::string_view key_text, std::string_view open_text, Includes includes);

/// A summary of a key for people.
struct KeySummary {
    Backend backend = Backend::host;
    std::string arch;
    std::string kernel;
    std::string variant;  ///< "gemm_tiled BM=64 ...": the kernel, and the constants at the head of the source
};
std::optional<KeySummary> summarise_key(std::string_view text);

struct IngredientDifference {
    /// "arch", "compiler", "option", "header kiln/device.h", "BM" (a constant at the head of the source),
    /// "source line 3" (of the template: the wanted one, if it has the line), ...
    std::string ingredient;
    std::string wanted;  ///< shortened to one line; empty: missing
    std::string found;
};
/// In the order of the key. Of headers and lines of the source, those that differ; empty only for equal keys.
std::vector<IngredientDifference> compare_keys(std::string_view wanted, std::string_view found);

}  // namespace kiln
