// SPDX-License-Identifier: Apache-2.0
//
// Lines are "trying | KEY", "ok MS COMPILER | KEY", "failed REASON | KEY", "wrong REASON | KEY" or "untried | KEY"; the
// last one of a candidate counts.
#include "tune/journal.h"

#include <fcntl.h>
#include <kiln/error.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/output_file.h"
#include "format/format.h"
#include "tune/wisdom_line.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMostBytes = 1 << 30;
constexpr std::string_view kHead = "# kiln tuning journal 1: ";
constexpr std::string_view kSeparator = " | ";
constexpr std::string_view kTrying = "trying", kOk = "ok", kFailed = "failed", kWrong = "wrong",
                           kUntried = "untried";

/// "0.187 NVRTC 13.0, build 65be0db3"
std::optional<Journal::Record> parse_time(std::string_view text) {
    Journal::Record record;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, record.median_ms);
    if (error != std::errc() || !std::isfinite(record.median_ms) || record.median_ms <= 0)
        return std::nullopt;
    if (stop == end) return record;
    if (*stop != ' ') return std::nullopt;
    record.text.assign(stop + 1, end);
    return record;
}

/// Applies a line about the candidate `key`. Invalid lines are ignored.
void note(std::map<std::string, Journal::Record>& records, std::string_view what, const std::string& key) {
    const std::size_t space = what.find(' ');
    const std::string_view kind = what.substr(0, space);
    const std::string_view rest =
        space == std::string_view::npos ? std::string_view() : what.substr(space + 1);
    if (kind == kTrying) {
        records.insert_or_assign(key, Journal::Record{0, false, "an earlier run ended while it was tried"});
    } else if (kind == kUntried) {
        records.erase(key);
    } else if (kind == kOk) {
        if (auto record = parse_time(rest)) records.insert_or_assign(key, std::move(*record));
    } else if (kind == kFailed || kind == kWrong) {
        records.insert_or_assign(key, Journal::Record{0, kind == kWrong, std::string(rest)});
    }
}

}  // namespace

Journal::Journal(std::filesystem::path file, const std::string& work, bool resume) : file_(std::move(file)) {
    const std::string head = std::string(kHead) + work;
    const auto fail = [&](const std::string& what) {
        throw UsageError("the tuning journal " + file_.string() + " " + what);
    };
    bool is_new = true;
    try {
        if (file_.has_parent_path()) std::filesystem::create_directories(file_.parent_path());
        const OutputPlace place(file_);
        if (place.is_stream())
            fail("is not a regular file, and a journal is read and removed; name another --output.");
        file_ = place.path();  // finish() removes it, and must not remove a link
        lock_ = FileLock::acquire_for(file_, std::chrono::milliseconds(0));
        if (!lock_) fail("is being written by another tuning run; wait for it, or name another --output.");
        std::string begin(kHead.size(), '\0');
        std::ifstream there(file_, std::ios::binary);
        begin.resize(static_cast<std::size_t>(there.read(begin.data(), std::ssize(begin)).gcount()));
        if (!kHead.starts_with(begin))
            fail("would replace a file that is no journal, since it does not begin with '" +
                 std::string(kHead) + "'; move it away, or name another --output.");
        const std::optional<std::string> text =
            resume ? read_text_if_exists(file_, kMostBytes) : std::nullopt;
        if (text && !text->empty()) {
            is_new = false;
            std::istringstream lines(*text);
            std::string line;
            std::getline(lines, line);
            if (line != head)
                fail("belongs to other work ('" + line.substr(0, 200) + "' instead of '" + head +
                     "'); start again without --resume, or name another --output.");
            while (std::getline(lines, line)) {
                const std::size_t at = line.find(kSeparator);
                if (at == std::string::npos || lines.eof())
                    continue;  // without its newline it may be incomplete
                note(records_, std::string_view(line).substr(0, at), line.substr(at + kSeparator.size()));
            }
        }
    } catch (const std::system_error& error) {
        fail("can't be used: " + std::string(error.what()));
    }
    const int flags =
        O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (is_new ? O_TRUNC : 0);
    descriptor_ = FileDescriptor(::open(file_.c_str(), flags, 0644));
    if (!descriptor_) fail("can't be written: " + std::string(std::strerror(errno)));
    // The last line of a killed run may lack its newline.
    const std::string text = is_new ? head + "\n" : "\n";
    if (!write_all(descriptor_.value(), std::as_bytes(std::span(text))))
        fail("can't be written: " + std::string(std::strerror(errno)));
}

std::optional<Journal::Record> Journal::find(const std::string& key) const {
    const auto found = records_.find(key);
    return found == records_.end() ? std::nullopt : std::optional(found->second);
}

void Journal::begin(const std::string& key) { write(std::string(kTrying), key); }

void Journal::withdraw(const std::string& key) { write(std::string(kUntried), key); }

void Journal::add(const std::string& key, const Record& record) {
    const std::string what = record.median_ms > 0 ? formatted("{} {:.9g}", kOk, record.median_ms)
                                                  : std::string(record.wrong ? kWrong : kFailed);
    write(what + " " + as_field(record.text), key);
}

void Journal::write(const std::string& what, const std::string& key) {
    if (!descriptor_) return;
    const std::string line = what + std::string(kSeparator) + key + "\n";
    if (!write_all(descriptor_.value(), std::as_bytes(std::span(line))))
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
