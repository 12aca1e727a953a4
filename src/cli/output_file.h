// SPDX-License-Identifier: Apache-2.0
//
// What an option such as --output names: a file, a device or FIFO, or with "-" standard output.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "cli/terminal.h"

namespace kiln::cli {

class Output {
  public:
    /// Nothing is made yet. what: whose value `given` is, "--output", for messages. Throws UsageError where it can't be
    /// written, so that minutes are not spent on what has no place.
    Output(std::string what, const std::string& given);

    /// For the library's functions that write: what they take for standard output is /dev/stdout. A file named "-" is
    /// given as ./-.
    const std::filesystem::path& path() const { return path_; }
    /// Then reports have no place there.
    bool is_standard_output() const { return is_standard_output_; }
    /// A device or a FIFO: it is written to once, and can't be read.
    bool is_stream() const { return is_stream_; }

    /// Throws UsageError where --json wants standard output for its one object too.
    void check_json(bool json) const;
    /// Throws UsageError where a binary would go to a terminal.
    void check_terminal(const Terminal& terminal) const;
    /// See kiln/files.h. Throws UsageError.
    void write(std::string_view content) const;

  private:
    std::string what_;
    std::filesystem::path path_;
    bool is_standard_output_ = false, is_stream_ = false;
};

}  // namespace kiln::cli
