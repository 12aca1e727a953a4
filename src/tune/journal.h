// SPDX-License-Identifier: Apache-2.0
//
// A file to which a tuning run appends each result, so that a run that was killed can be resumed, without the candidate
// that killed it. Damaged lines, such as the last one of a killed run, are ignored.
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
        std::string text;      ///< the reason of a failure, else the compiler
    };

    /// Stores nothing.
    Journal() = default;
    /// work: what the records apply to (a device, an architecture). Throws UsageError when a journal to be resumed
    /// is of other work, when the file can't be written, or when another run is writing it.
    Journal(std::filesystem::path file, const std::string& work, bool resume);

    /// key: of a candidate, without newlines.
    std::optional<Record> find(const std::string& key) const;
    /// Records that a candidate is being tried. If neither add() nor withdraw() follows, the process ended in
    /// it, and it counts as failed.
    void begin(const std::string& key);
    void add(const std::string& key, const Record& record);
    /// The candidate was neither timed nor did it fail: it counts as not tried.
    void withdraw(const std::string& key);
    /// The work is complete: removes the file.
    void finish();

  private:
    void write(const std::string& what, const std::string& key);

    std::filesystem::path file_;
    std::optional<FileLock> lock_;
    FileDescriptor descriptor_;
    std::map<std::string, Record> records_;
};

}  // namespace kiln
