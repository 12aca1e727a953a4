// SPDX-License-Identifier: Apache-2.0
//
// The target of an option such as --output: a file, a device or FIFO, or with "-" standard output. Whether a file is there.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal.h"

namespace kiln::cli {

/// Of machine code and of PTX, see Output::check_replaces.
std::vector<std::string_view> binary_marks();
/// Of pictures (SVG).
constexpr std::string_view kPictureMark = "class=\"kiln-picture\"";

class Output {
  public:
    /// Creates nothing yet. what: the option, "--output", for messages. Throws UsageError when it can't be written, so
    /// that no time is spent on results that would be lost.
    Output(std::string what, const std::string& given);

    /// For the library's functions, which use /dev/stdout for standard output. A file named "-" is given as ./-.
    const std::filesystem::path& path() const { return path_; }
    /// If so, reports are not printed there.
    bool is_standard_output() const { return is_standard_output_; }
    /// A device or a FIFO: it is written once, and can't be read.
    bool is_stream() const { return is_stream_; }

    /// Throws UsageError when --json uses standard output too.
    void check_json(bool json) const;
    /// Throws UsageError when a binary would be written to a terminal.
    void check_terminal(const Terminal& terminal) const;
    /// Throws UsageError where a file is there that Kiln did not write as such a thing: it is not empty, and none of `marks`
    /// is in its first 4 KiB. what: "seed pack".
    void check_replaces(const std::string& what, const std::vector<std::string_view>& marks) const;
    /// See kiln/files.h. Throws UsageError.
    void write(std::string_view content) const;

  private:
    std::string what_;
    std::filesystem::path path_;
    bool is_standard_output_ = false, is_stream_ = false;
};

/// Of a file that need not exist. Throws UsageError with the reason where that can't be found out.
std::filesystem::file_status status_of(const std::filesystem::path& file);

}  // namespace kiln::cli
