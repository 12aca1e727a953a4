// SPDX-License-Identifier: Apache-2.0
//
// What a tuning run has measured, line by line as it comes: so that a run that was killed goes on where it was, without
// the candidate that killed it. Damaged lines, the last one of a killed run for example, count as not there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/file_lock.h"

namespace kiln {

class Journal {
  public:
    struct Record {
        double median_ms = 0;  ///< 0: it failed
        bool wrong = false;    ///< its results
        std::string text;      ///< of a failure the reason, else the compiler
    };

    /// Keeps nothing.
    Journal() = default;
    /// work: what the records are good for (a device, an architecture); a journal of other work is a UsageError when
    /// it is to be resumed, as is a file that can't be written or that another run writes.
    Journal(std::filesystem::path file, const std::string& work, bool resume);

    /// key: of a candidate, without newlines.
    std::optional<Record> find(const std::string& key) const;
    /// It is tried now. Where no add() or withdraw() follows, the process ended in it, and it failed.
    void begin(const std::string& key);
    void add(const std::string& key, const Record& record);
    /// It was neither timed nor did it fail: nothing is known of it.
    void withdraw(const std::string& key);
    /// Removes the file: the work is done.
    void finish();

  private:
    void write(const std::string& what, const std::string& key);

    std::filesystem::path file_;
    std::optional<FileLock> lock_;
    FileDescriptor descriptor_;
    std::map<std::string, Record> records_;
};

}  // namespace kiln
