// SPDX-License-Identifier: Apache-2.0
//
// kiln explain.
#include "cli/kiln_command.h"
#include "cli/text_format.h"

namespace kiln::cli {
namespace {

Json explained_json(const Explanation& why, const Variant& variant, const Target& target) {
    Json differences = Json::array();
    for (const KeyDifference& difference : why.differences)
        differences.push_back({{"ingredient", difference.ingredient},
                               {"wanted", difference.wanted},
                               {"found", difference.found}});
    Json json;
    json["variant"] = variant.text();
    json["backend"] = name(target.backend);
    json["arch"] = target.arch;
    json["key"] = why.key.digest.empty() ? Json() : Json(why.key.digest);
    json["hit"] = why.tier.has_value();
    json["tier"] = why.tier ? Json(name(*why.tier)) : Json();
    json["place"] = why.tier ? Json(why.place) : Json();
    json["compiler"] = why.tier ? Json(why.compiler) : Json();
    json["no_compiler"] = why.no_compiler.empty() ? Json() : Json(why.no_compiler);
    json["rejected"] = why.rejected;
    json["nearest"] =
        why.nearest_key.empty() ? Json() : Json{{"key", why.nearest_key}, {"variant", why.nearest_variant}};
    json["differences"] = differences;
    return json;
}

std::string explained_text(const Explanation& why, const Variant& variant, const Target& target,
                           const Terminal& terminal) {
    std::string text = variant.text() + "\n\n";
    text += line("target", target_text(target));
    text += line("key", why.key.digest.empty() ? "not known without a compiler" : why.key.digest);
    text +=
        "  " +
        (why.tier ? terminal.painted(Colour::green, "HIT") + "        " + std::string(name(*why.tier)) +
                        ", " + why.place
                  : terminal.painted(Colour::red, "MISS") + "       " +
                        (why.no_compiler.empty() ? "it would be compiled" : "it can't be compiled here")) +
        "\n";
    if (why.tier) text += line("made by", why.compiler);
    if (!why.no_compiler.empty()) text += line("compiler", "none here: " + why.no_compiler);
    for (const std::string& reason : why.rejected) text += line("rejected", reason);
    if (why.nearest_key.empty())
        return why.tier || !why.no_compiler.empty()
                   ? text
                   : text + line("nearest", "none: no entry of this kernel is there");
    text += line(why.tier ? "its key" : "nearest", why.nearest_key) + line("", why.nearest_variant);
    if (why.differences.empty()) return text;
    text += why.tier ? "\nAnother compiler made it; it differs in:\n" : "\nThe nearest entry differs in:\n";
    std::vector<std::vector<std::string>> rows;
    for (const KeyDifference& difference : why.differences) {
        const auto shown = [](const std::string& value) { return value.empty() ? "(not there)" : value; };
        rows.push_back({difference.ingredient, "wanted", shown(difference.wanted)});
        rows.push_back({"", "found", shown(difference.found)});
    }
    return text + table(rows);
}

}  // namespace

int explain(const Call& call) {
    Warnings warnings(call.terminal);
    const auto service = open_service(call, warnings, compile_options(call, warnings));
    const Variant variant = chosen_variant(service->find(call.words[0]), std::span(call.words).subspan(1));
    const Explanation why = service->explain(variant);
    call.print(explained_json(why, variant, service->target()),
               explained_text(why, variant, service->target(), call.terminal));
    return kPassed;
}

}  // namespace kiln::cli
