// SPDX-License-Identifier: Apache-2.0
//
// Wisdom files: reading, writing and merging.
#include <kiln/error.h>
#include <kiln/wisdom.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <system_error>

#include "base/config.h"
#include "base/file.h"
#include "base/file_name.h"
#include "base/fork.h"
#include "base/output_file.h"
#include "format/format.h"
#include "tune/settings_lock.h"
#include "tune/shipped_texts.h"
#include "tune/wisdom_line.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMostBytes = 256 << 20;
constexpr std::chrono::hours kClockTolerance{24};

bool is_better(const WisdomEntry& a, const WisdomEntry& b) {
    return a.median_ms != b.median_ms ? a.median_ms < b.median_ms : a.text() < b.text();
}

/// Times are comparable only for the same source and compiler.
bool is_same_source(const WisdomEntry& a, const WisdomEntry& b) {
    return a.digest == b.digest && a.compiler == b.compiler;
}

/// The entry of a slot that is kept. Dates behind `tomorrow` are of a clock that was wrong, and older than all others.
WisdomEntry settled(const std::vector<const WisdomEntry*>& entries, std::string_view tomorrow) {
    const auto age = [&](const WisdomEntry* entry) {
        return std::pair(entry->date <= tomorrow, std::string_view(entry->date));
    };
    const auto newest = *std::ranges::max_element(entries, [&](const WisdomEntry* a, const WisdomEntry* b) {
        return age(a) != age(b) ? age(a) < age(b) : is_better(*b, *a);
    });
    const WisdomEntry* best = newest;
    for (const WisdomEntry* const entry : entries)
        if (is_same_source(*entry, *newest) && is_better(*entry, *best)) best = entry;
    WisdomEntry result = *best;
    result.date = newest->date;
    return result;
}

std::string read_file(const std::filesystem::path& file) {
    std::optional<std::string> text;
    try {
        text = read_text_if_exists(file, kMostBytes);
    } catch (const std::system_error& error) {
        throw UsageError("the wisdom file can't be read: " + std::string(error.what()));
    }
    if (!text) throw UsageError(file.string() + ": there is no such wisdom file; `kiln tune` makes one.");
    return *text;
}

}  // namespace

Wisdom Wisdom::parse(std::string_view text, const std::string& file) {
    std::vector<WisdomEntry> entries;
    int number = 0;
    bool headed = false;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        ++number;
        const auto where = [&] { return formatted("{}:{}: ", file, number); };
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
        if (!headed && line != kWisdomHead)
            throw UsageError(where() + "a wisdom file begins with the line '" + std::string(kWisdomHead) +
                             "', and this one with '" + std::string(line.substr(0, 60)) + "'.");
        headed = true;
        if (line.front() == '#') continue;
        try {
            entries.push_back(parse_wisdom_line(line));
        } catch (const UsageError& error) {
            throw UsageError(where() + error.what());
        }
    }
    Wisdom wisdom;
    wisdom.merge(entries);
    return wisdom;
}

Wisdom Wisdom::load(const std::filesystem::path& file) {
    const std::string text = read_file(file);
    // Wisdom without entries has the line, too: this is something else, or a copy that was cut off.
    if (text.find_first_not_of(" \t\r\n") == std::string::npos)
        throw UsageError(file.string() + " is empty: a wisdom file begins with the line '" +
                         std::string(kWisdomHead) + "'.");
    return parse(text, file.string());
}

const Wisdom& Wisdom::shipped() {
    static std::atomic<const Wisdom*> known{nullptr};
    return made_once(known, [] {
        auto all = std::make_unique<Wisdom>();
        for (const ShippedText& file : shipped_wisdom())
            all->merge(parse(file.text, "cache/wisdom/" + std::string(file.name)));
        return all;
    });
}

std::filesystem::path Wisdom::user_file() { return config::wisdom_file().value_or(std::filesystem::path()); }

Wisdom Wisdom::usual(std::string* problem) {
    Wisdom wisdom = shipped();
    const std::filesystem::path file = user_file();
    try {
        std::optional<std::string> text;
        if (!file.empty()) text = read_text_if_exists(file, kMostBytes);
        if (text) wisdom.prefer(parse(*text, file.string()));
    } catch (const std::exception& error) {
        if (problem != nullptr) *problem = "the wisdom of " + file.string() + " is ignored: " + error.what();
    }
    return wisdom;
}

void Wisdom::store(const std::filesystem::path& file, const Wisdom& found) {
    try {
        if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
        const OutputPlace place(file);
        if (place.is_stream()) {
            if (!found.empty()) write_output_file(file, found.text());
            return;
        }
        const FileLock lock = locked_settings(place.path(), "wisdom");
        Wisdom all;
        if (const auto text = read_text_if_exists(place.path(), kMostBytes))
            all = parse(*text, file.string());
        all.merge(found);
        const std::string text = all.text();
        static_cast<void>(parse(text, file.string()));  // checks that the file can be read back
        write_output_file(file, text);
    } catch (const FileError& error) {
        throw UsageError("wisdom can't be written to " + file.string() + ": " + error.reason() + ".");
    } catch (const std::system_error& error) {
        throw UsageError("wisdom can't be written to " + file.string() + ": " + error.what());
    }
}

void Wisdom::merge(const std::vector<WisdomEntry>& entries) {
    std::map<std::string, std::vector<const WisdomEntry*>> slots;
    for (const WisdomEntry& entry : entries_) slots[entry.slot()].push_back(&entry);
    for (const WisdomEntry& entry : entries) slots[entry.slot()].push_back(&entry);
    const std::string tomorrow = utc_now(kClockTolerance);
    std::vector<WisdomEntry> merged;
    for (const auto& [slot, of_slot] : slots) merged.push_back(settled(of_slot, tomorrow));
    entries_ = std::move(merged);
}

void Wisdom::prefer(const Wisdom& other) {
    const auto key = [](const WisdomEntry& entry) { return std::pair(entry.slot(), entry.digest); };
    std::map<std::pair<std::string, std::string>, WisdomEntry> kept;
    for (const WisdomEntry& entry : entries_) kept.insert_or_assign(key(entry), entry);
    for (const WisdomEntry& entry : other.entries_) kept.insert_or_assign(key(entry), entry);
    entries_.clear();
    for (auto& [place, entry] : kept) entries_.push_back(std::move(entry));
}

void Wisdom::keep_if(const std::function<bool(const WisdomEntry&)>& is_wanted) {
    std::erase_if(entries_, [&](const WisdomEntry& entry) { return !is_wanted(entry); });
}

std::string Wisdom::text() const {
    std::string text(kWisdomHead);
    text += '\n';
    for (const WisdomEntry& entry : entries_) text += entry.text() + "\n";
    return text;
}

}  // namespace kiln
