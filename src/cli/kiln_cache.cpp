// SPDX-License-Identifier: Apache-2.0
//
// kiln cache stats, list, show. Commands that change the cache are in kiln_cache_changes.cpp.
#include "cli/kiln_cache.h"

#include <kiln/error.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <set>

#include "cli/kiln_command.h"
#include "cli/option_values.h"
#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

constexpr std::size_t kKeyDigits = 12;  // of a key in a list; enough to identify it

using Time = std::optional<std::chrono::system_clock::time_point>;

std::string time_text(const Time& time, const char* pattern, bool local) {
    if (!time) return {};
    const std::time_t seconds = std::chrono::system_clock::to_time_t(*time);
    std::tm parts{};
    if ((local ? localtime_r(&seconds, &parts) : gmtime_r(&seconds, &parts)) == nullptr) return {};
    char text[64];
    return {text, std::strftime(text, sizeof text, pattern, &parts)};
}

Json entry_json(const CacheEntry& entry) {
    Json json;
    json["key"] = entry.key;
    json["variant"] = entry.variant;
    json["kernel"] = entry.kernel;
    json["backend"] = name(entry.backend);
    json["arch"] = entry.arch;
    json["kind"] = name(entry.kind);
    json["compiler"] = entry.compiler;
    json["compile_ms"] = entry.compile_ms;
    json["bytes"] = entry.bytes;
    json["last_used"] =
        entry.last_used ? Json(time_text(entry.last_used, "%Y-%m-%dT%H:%M:%SZ", false)) : Json();
    return json;
}

void sort_entries(std::vector<CacheEntry>& entries, const std::string& how) {
    const auto by = [&](auto less) { std::stable_sort(entries.begin(), entries.end(), less); };
    switch (parse_choice("--sort", how, {"used", "size", "time", "name"})) {
        case 0:
            return by([](const CacheEntry& a, const CacheEntry& b) { return a.last_used > b.last_used; });
        case 1:
            return by([](const CacheEntry& a, const CacheEntry& b) { return a.bytes > b.bytes; });
        case 2:
            return by([](const CacheEntry& a, const CacheEntry& b) { return a.compile_ms > b.compile_ms; });
        default:
            return by([](const CacheEntry& a, const CacheEntry& b) {
                return std::tie(a.variant, a.backend, a.arch) < std::tie(b.variant, b.backend, b.arch);
            });
    }
}

/// One ingredient of a key: the canonical text is lines "TAG SIZE", each followed by SIZE bytes and a
/// newline.
struct Ingredient {
    std::string tag;
    std::string value;
};

/// Stops where the text is not of that form.
std::vector<Ingredient> ingredients_of(const std::string& text) {
    std::vector<Ingredient> ingredients;
    std::size_t at = text.find('\n');  // after the line with the format's name
    at = at == std::string::npos ? text.size() : at + 1;
    while (at < text.size()) {
        const std::size_t end = text.find('\n', at);
        const std::size_t space = text.find(' ', at);
        if (end == std::string::npos || space >= end) break;
        std::size_t size = 0;
        for (std::size_t i = space + 1; i < end; ++i) {
            if (text[i] < '0' || text[i] > '9' || size > text.size()) return ingredients;
            size = 10 * size + static_cast<std::size_t>(text[i] - '0');
        }
        if (size >= text.size() - end - 1) break;
        ingredients.push_back({text.substr(at, space - at), text.substr(end + 1, size)});
        at = end + 1 + size + 1;
    }
    return ingredients;
}

/// A source is shown up to the template's own text, which is in its file.
std::string source_text(const std::string& source) {
    const std::size_t own = own_text_begin(source);
    std::string text;
    for (std::size_t at = 0; at < std::min(own, source.size());) {
        const std::size_t end = std::min(source.find('\n', at), source.size());
        if (end > at) text += "      " + source.substr(at, end - at) + "\n";
        at = end + 1;
    }
    const auto lines = std::count(source.begin(), source.end(), '\n');
    return formatted("{}      ... {} lines in all, {}\n", text, lines, bytes_text(double(source.size())));
}

std::string indented(const std::string& text) {
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        result += "  " + text.substr(at, end - at) + "\n";
        at = end + 1;
    }
    return result;
}

std::string details_text(const CacheEntryDetails& details) {
    const CacheEntry& entry = details.summary;
    std::string text = entry.variant + "\n\n";
    text += line("key", entry.key);
    text += line("place", details.place);
    text += line("kernel", entry.kernel);
    text += line("size", bytes_text(double(entry.bytes)) + ", " + std::string(name(entry.kind)));
    text += line("compiled", "in " + duration(entry.compile_ms) + " by " + entry.compiler);
    if (entry.last_used) text += line("last used", time_text(entry.last_used, "%Y-%m-%d %H:%M:%S", true));
    text += "\nIngredients of the key:\n";
    for (const auto& [tag, value] : ingredients_of(details.key.text)) {
        if (tag == "source")
            text += "  source\n" + source_text(value);
        else
            text += line(tag.c_str(), value);
    }
    return text + (details.log.empty() ? "\nThe compiler's log is empty.\n"
                                       : "\nThe compiler's log:\n" + indented(details.log));
}

std::string prometheus(const CacheUsage& usage) {
    std::string text;
    const auto gauge = [&](const char* gauge_name, const char* help, std::uint64_t value) {
        text += formatted("# HELP {} {}\n# TYPE {} gauge\n{} {}\n", gauge_name, help, gauge_name, gauge_name,
                          value);
    };
    gauge("kiln_cache_entries", "Entries on disk", usage.entries);
    gauge("kiln_cache_bytes", "Bytes of all entries on disk", usage.bytes);
    gauge("kiln_cache_limit_bytes", "Bytes that the entries may have", usage.limit_bytes);
    return text + prometheus_text(usage.counters);
}

}  // namespace

Cache open_cache(const KilnOptions& options) {
    CacheOptions setup = cache_options(options);
    setup.remote = RemoteOptions{};
    return Cache(std::move(setup));
}

std::size_t count_missing(const Cache& cache, std::set<std::string> keys) {
    for (const CacheEntry& entry : cache.entries()) keys.erase(entry.key);
    return keys.size();
}

std::string over_limit_text(const Cache& cache, std::size_t missing, std::size_t all) {
    return formatted("the cache kept {} of {} entries: its limit is {} (KILN_CACHE_LIMIT)", all - missing,
                     all, bytes_text(double(cache.usage().limit_bytes)));
}

int cache_stats(const Call& call) {
    const Cache cache = open_cache(call.options);
    const CacheUsage usage = cache.usage();
    if (call.flag("prometheus")) {
        if (call.options.json) throw UsageError("--prometheus and --json are two forms; choose one.");
        call.terminal.print(prometheus(usage));
        return kPassed;
    }
    Json counters = Json::object();
    std::vector<std::vector<std::string>> rows;
    for (const CounterField& field : counter_fields()) {
        const std::uint64_t value = usage.counters.*field.value;
        counters[std::string(field.name)] = value;
        rows.push_back({std::string(field.name), std::to_string(value), std::string(field.help)});
    }
    Json json;
    json["directory"] = cache.directory().string();
    json["entries"] = usage.entries;
    json["bytes"] = usage.bytes;
    json["limit_bytes"] = usage.limit_bytes;
    json["counters"] = counters;
    call.print(
        json,
        line("directory", cache.directory().string()) + line("entries", std::to_string(usage.entries)) +
            line("size", bytes_text(double(usage.bytes)) + " of " + bytes_text(double(usage.limit_bytes))) +
            "\nSince the cache was cleared, by all processes:\n" + table(rows, {1}));
    return kPassed;
}

int cache_list(const Call& call) {
    const std::uint64_t limit = call.has("limit")
                                    ? parse_whole("--limit", call.value("limit"), 1, 1'000'000'000)
                                    : std::numeric_limits<std::uint64_t>::max();
    std::vector<CacheEntry> entries =
        call.has("pack") ? list_pack(call.value("pack")) : open_cache(call.options).entries();
    sort_entries(entries, call.has("sort") ? call.value("sort") : "used");
    if (entries.size() > limit) entries.resize(limit);
    Json list = Json::array();
    std::vector<std::vector<std::string>> rows;
    for (const CacheEntry& entry : entries) {
        list.push_back(entry_json(entry));
        rows.push_back({entry.key.substr(0, kKeyDigits), std::string(name(entry.backend)) + " " + entry.arch,
                        bytes_text(double(entry.bytes)), duration(entry.compile_ms),
                        time_text(entry.last_used, "%Y-%m-%d %H:%M", true), entry.variant});
    }
    if (!rows.empty())
        rows.insert(rows.begin(), {"KEY", "TARGET", "SIZE", "COMPILED IN", "LAST USED", "VARIANT"});
    call.print({{"entries", list}}, rows.empty() ? "no entries\n" : table(rows, {2, 3}));
    return kPassed;
}

int cache_show(const Call& call) {
    const CacheEntryDetails details = open_cache(call.options).entry(call.words[0]);
    Json ingredients = Json::array();
    for (const auto& [tag, value] : ingredients_of(details.key.text))
        ingredients.push_back({{"name", tag}, {"value", value}});
    Json json = entry_json(details.summary);
    json["place"] = details.place;
    json["ingredients"] = ingredients;
    json["log"] = details.log;
    call.print(json, details_text(details));
    return kPassed;
}

}  // namespace kiln::cli
