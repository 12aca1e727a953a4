// SPDX-License-Identifier: Apache-2.0
//
// What a tuning run has measured, a line per candidate, as it comes: so that a run that was killed goes on where it
// was. Damaged lines, the last one of a killed run for example, count as not there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "base/file.h"

namespace kiln {

class Journal {
  public:
    struct Record {
        double median_ms = 0;  ///< 0: it failed
        bool wrong = false;    ///< its results
        std::string reason;    ///< of a failure
    };

    /// Keeps nothing.
    Journal() = default;
    /// work: what the records are good for (a device, an architecture); a journal of other work is a UsageError when
    /// it is to be resumed, as is a file that can't be written.
    Journal(std::filesystem::path file, const std::string& work, bool resume);

    /// key: of a candidate, without newlines.
    std::optional<Record> find(const std::string& key) const;
    void add(const std::string& key, const Record& record);
    /// Removes the file: the work is done.
    void finish();

  private:
    std::filesystem::path file_;
    FileDescriptor descriptor_;
    std::map<std::string, Record> records_;
};

}  // namespace kiln
