// SPDX-License-Identifier: Apache-2.0
//
// The text: a first line, then records of lines: "record", the checksums of question and stamps, how many paths and
// values; then these, one a line. The last line is a checksum of all before it; a text that is not whole is nothing.
#include "compile/identity_memory.h"

#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "base/digest.h"
#include "format/format.h"

namespace kiln {
namespace {

constexpr std::string_view kFirstLine = "kiln-identities 2\n";
constexpr std::string_view kChecksum = "checksum ";
constexpr std::size_t kMostRecords = 24;
constexpr std::size_t kMostLines = 10000;  // of a record
// A file that changed so short a while ago may change again within the same tick of the clock that its times are
// taken from.
constexpr long long kSettled_s = 2;

struct Stamps {
    std::string checksum;
    long long newest_s = 0;
};

Stamps stamps_of(const std::vector<std::string>& paths) {
    Stamps stamps;
    std::string text;
    for (const auto& path : paths) {
        struct stat status {};
        if (::stat(path.c_str(), &status) != 0) status = {};
        for (const long long number :
             {static_cast<long long>(status.st_dev), static_cast<long long>(status.st_ino),
              static_cast<long long>(status.st_size), static_cast<long long>(status.st_mtim.tv_sec),
              static_cast<long long>(status.st_mtim.tv_nsec), static_cast<long long>(status.st_ctim.tv_sec),
              static_cast<long long>(status.st_ctim.tv_nsec)})
            text += formatted("{} ", number);
        stamps.newest_s = std::max({stamps.newest_s, static_cast<long long>(status.st_mtim.tv_sec),
                                    static_cast<long long>(status.st_ctim.tv_sec)});
    }
    stamps.checksum = checksum_hex(text);
    return stamps;
}

bool has_newline(const std::vector<std::string>& lines) {
    return std::any_of(lines.begin(), lines.end(),
                       [](const std::string& line) { return line.find('\n') != std::string::npos; });
}

}  // namespace

bool IdentityMemory::holds(const Record& record) {
    return stamps_of(record.watched).checksum == record.stamps;
}

std::string IdentityMemory::text_of(const std::vector<Record>& records) {
    std::string text(kFirstLine);
    for (const auto& record : records) {
        text += formatted("record {} {} {} {}\n", record.question, record.stamps, record.watched.size(),
                          record.values.size());
        for (const auto& path : record.watched) text += path + "\n";
        for (const auto& value : record.values) text += value + "\n";
    }
    return text + std::string(kChecksum) + checksum_hex(text) + "\n";
}

std::vector<IdentityMemory::Record> IdentityMemory::parse(const std::string& text) {
    const auto last = text.rfind(kChecksum);
    if (!text.starts_with(kFirstLine) || last == std::string::npos ||
        text.substr(last + kChecksum.size()) != checksum_hex(std::string_view(text).substr(0, last)) + "\n")
        return {};
    std::istringstream lines(text.substr(kFirstLine.size(), last - kFirstLine.size()));
    std::vector<Record> records;
    std::string line, word;
    while (std::getline(lines, line)) {
        Record record;
        std::size_t paths = 0, values = 0;
        std::istringstream head(line);
        if (!(head >> word >> record.question >> record.stamps >> paths >> values) || word != "record" ||
            paths > kMostLines || values > kMostLines)
            return {};
        for (std::size_t i = 0; i < paths + values; ++i) {
            if (!std::getline(lines, line)) return {};
            (i < paths ? record.watched : record.values).push_back(line);
        }
        records.push_back(std::move(record));
    }
    return records;
}

std::vector<std::string> IdentityMemory::ask(const std::string& question, const Derive& derive) {
    const std::string asked = checksum_hex(question);
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(asked); found != known_.end()) {
        if (holds(found->second)) return found->second.values;
        known_.erase(found);
    }
    if (store_ && !read_) {
        read_ = true;
        stored_ = parse(store_->read());
    }
    for (const auto& record : stored_) {
        if (record.question != asked || !holds(record)) continue;
        known_[asked] = record;
        return record.values;
    }

    const auto begin_s = static_cast<long long>(::time(nullptr));
    Answer answer = derive();
    Record record;
    record.question = asked;
    for (const auto& path : answer.watched) record.watched.push_back(path.string());
    std::sort(record.watched.begin(), record.watched.end());
    record.watched.erase(std::unique(record.watched.begin(), record.watched.end()), record.watched.end());
    record.values = answer.values;
    // What changed while the files were read, or shortly before, is not settled, however long that took.
    const Stamps stamps = stamps_of(record.watched);
    if (stamps.newest_s + kSettled_s >= begin_s || record.watched.size() > kMostLines ||
        record.values.size() > kMostLines || has_newline(record.watched) || has_newline(record.values))
        return answer.values;
    record.stamps = stamps.checksum;
    known_[asked] = record;
    if (store_) {
        stored_ = parse(store_->read());  // others may have added theirs
        std::erase_if(
            stored_, [&](const Record& one) { return one.question == asked && one.stamps == record.stamps; });
        stored_.insert(stored_.begin(), std::move(record));
        if (stored_.size() > kMostRecords) stored_.resize(kMostRecords);
        store_->write(text_of(stored_));
    }
    return answer.values;
}

}  // namespace kiln
