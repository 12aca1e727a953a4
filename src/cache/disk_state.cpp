// SPDX-License-Identifier: Apache-2.0
//
// Lines "name value" below a first line with the format, and a checksum in the last.
#include "cache/disk_state.h"

#include <charconv>
#include <ctime>
#include <exception>
#include <span>

#include "base/digest.h"
#include "cache/disk_files.h"
#include "cache/disk_temporary.h"

namespace kiln {
namespace {

constexpr std::string_view kStateLine = "kiln-state 1\n";
constexpr std::string_view kChecksum = "checksum ";
constexpr std::size_t kMaxStateBytes = 65536;

// Of the first line with that name; leaves the value alone where there is none or it is no number.
template <class Number>
bool read_line(std::string_view text, std::string_view name, Number& value) {
    const std::string start = "\n" + std::string(name) + " ";
    const auto at = text.find(start);
    if (at == std::string_view::npos) return false;
    const char* const first = text.data() + at + start.size();
    const char* const last = text.data() + text.size();
    Number number = 0;
    const auto [end, error] = std::from_chars(first, last, number);
    if (error != std::errc() || end == last || *end != '\n') return false;
    value = number;
    return true;
}

}  // namespace

std::string state_text(const DiskState& state) {
    std::string text(kStateLine);
    const auto append = [&](std::string_view name, const std::string& value) {
        text.append(name).append(" ").append(value).append("\n");
    };
    append("entry_bytes", std::to_string(state.entry_bytes));
    append("counted_at", std::to_string(state.counted_at));
    for (const auto& field : counter_fields())
        append(field.name, std::to_string(state.counters.*field.value));
    return text + std::string(kChecksum) + checksum_hex(text) + "\n";
}

DiskState parse_state(std::string_view text, std::string& reason) {
    DiskState state;
    reason.clear();
    for (const auto& field : counter_fields()) read_line(text, field.name, state.counters.*field.value);
    const auto last = text.rfind(kChecksum);
    if (!text.starts_with(kStateLine))
        reason = "it does not start like the state of a Kiln cache";
    else if (last == std::string_view::npos ||
             text.substr(last + kChecksum.size()) != checksum_hex(text.substr(0, last)) + "\n")
        reason = "its checksum is wrong";
    else if (!read_line(text, "entry_bytes", state.entry_bytes) ||
             !read_line(text, "counted_at", state.counted_at))
        reason = "it does not say how many bytes there are";
    if (!reason.empty()) state.counted_at = 0;
    return state;
}

DiskState read_state(int version, Trust trust, std::string& reason) {
    const Opened file = unless_short(open_file(version, kStateName, trust, kMaxStateBytes));
    reason = file.refusal;
    if (!file) return {};
    const auto bytes = read_all(file);
    if (!bytes) {
        reason = "it can't be read";
        return {};
    }
    return parse_state({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, reason);
}

void write_state(int version, const DiskState& state, Trust trust) {
    const std::string text = state_text(state);
    DiskTemporary temporary(version, trust);
    temporary.write(std::as_bytes(std::span(text)));
    temporary.publish(version, kStateName);
}

void note_entry_bytes(int version, std::optional<std::uint64_t> bytes, Trust trust) {
    try {
        std::string damage;
        DiskState state = read_state(version, trust, damage);
        state.entry_bytes = bytes.value_or(0);
        state.counted_at = bytes ? std::int64_t{::time(nullptr)} : 0;
        write_state(version, state, trust);
    } catch (const std::exception&) {
    }
}

}  // namespace kiln
