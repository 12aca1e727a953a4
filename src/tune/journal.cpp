// SPDX-License-Identifier: Apache-2.0
//
// Lines are "ok MS | KEY", "failed REASON | KEY" or "wrong REASON | KEY".
#include "tune/journal.h"

#include <fcntl.h>
#include <kiln/error.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <sstream>
#include <system_error>

#include "tune/wisdom_line.h"

namespace kiln {
namespace {

constexpr std::string_view kHead = "# kiln tuning journal 1: ";
constexpr std::string_view kSeparator = " | ";

std::optional<Journal::Record> parse(std::string_view text) {
    Journal::Record record;
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    const std::string_view kind = text.substr(0, space), rest = text.substr(space + 1);
    if (kind == "ok") {
        const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), record.median_ms);
        if (error != std::errc() || stop != rest.data() + rest.size() || !std::isfinite(record.median_ms) ||
            record.median_ms <= 0)
            return std::nullopt;
        return record;
    }
    if (kind != "failed" && kind != "wrong") return std::nullopt;
    record.wrong = kind == "wrong";
    record.reason = rest;
    return record;
}

}  // namespace

Journal::Journal(std::filesystem::path file, const std::string& work, bool resume) : file_(std::move(file)) {
    const std::string head = std::string(kHead) + work;
    const auto fail = [&](const std::string& what) {
        throw UsageError("the tuning journal " + file_.string() + " " + what);
    };
    bool is_new = true;
    try {
        const std::optional<std::string> text = resume ? read_text_if_exists(file_) : std::nullopt;
        if (text && !text->empty()) {
            is_new = false;
            std::istringstream lines(*text);
            std::string line;
            std::getline(lines, line);
            if (line != head)
                fail("is of other work ('" + line.substr(0, 200) + "' instead of '" + head +
                     "'); leave --resume out, which starts it anew, or name another --output.");
            while (std::getline(lines, line)) {
                const std::size_t at = line.find(kSeparator);
                if (at == std::string::npos || lines.eof())
                    continue;  // without its newline it may be cut short
                if (const auto record = parse(std::string_view(line).substr(0, at)))
                    records_.insert_or_assign(line.substr(at + kSeparator.size()), *record);
            }
        }
        if (file_.has_parent_path()) std::filesystem::create_directories(file_.parent_path());
    } catch (const std::system_error& error) {
        fail("can't be used: " + std::string(error.what()));
    }
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (is_new ? O_TRUNC : 0);
    descriptor_ = FileDescriptor(::open(file_.c_str(), flags, 0644));
    if (!descriptor_) fail("can't be written: " + std::string(std::strerror(errno)));
    // A killed run may have left the last line open.
    const std::string text = is_new ? head + "\n" : "\n";
    if (!write_all(descriptor_.value(), std::as_bytes(std::span(text))))
        fail("can't be written: " + std::string(std::strerror(errno)));
}

std::optional<Journal::Record> Journal::find(const std::string& key) const {
    const auto found = records_.find(key);
    return found == records_.end() ? std::nullopt : std::optional(found->second);
}

void Journal::add(const std::string& key, const Record& record) {
    if (!descriptor_) return;
    std::ostringstream line;
    line.precision(9);
    if (record.median_ms > 0)
        line << "ok " << record.median_ms;
    else
        line << (record.wrong ? "wrong " : "failed ") << as_field(record.reason);
    line << kSeparator << key << "\n";
    const std::string text = line.str();
    if (!write_all(descriptor_.value(), std::as_bytes(std::span(text))))
        throw UsageError("the tuning journal " + file_.string() +
                         " can't be written: " + std::strerror(errno));
}

void Journal::finish() {
    if (!descriptor_) return;
    descriptor_.reset();
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
}

}  // namespace kiln
