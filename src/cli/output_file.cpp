// SPDX-License-Identifier: Apache-2.0
//
// "-", and errors in terms of options and files.
#include "cli/output_file.h"

#include <kiln/error.h>
#include <kiln/files.h>

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

namespace kiln::cli {
namespace {

constexpr const char* kStandardOutput = "/dev/stdout";

}  // namespace

Output::Output(std::string what, const std::string& given)
    : what_(std::move(what)), path_(given == "-" ? kStandardOutput : given) {
    try {
        const OutputTarget target = output_target(path_);
        is_standard_output_ = target.is_standard_output;
        is_stream_ = target.is_stream;
    } catch (const UsageError& error) {
        throw UsageError(what_ + ": " + error.what());
    }
}

void Output::check_json(bool json) const {
    if (json && is_standard_output_)
        throw UsageError("--json writes to standard output, where " + what_ + " writes too; give it a FILE.");
}

void Output::check_terminal(const Terminal& terminal) const {
    if (is_standard_output_ && terminal.output_is_terminal())
        throw UsageError("a binary is not written to a terminal: give " + what_ + " a FILE, or use a pipe.");
}

void Output::check_replaces(const std::string& what, const std::vector<std::string_view>& marks) const {
    constexpr std::size_t kHeadBytes = 4096;
    if (is_stream_) return;
    std::ifstream file(path_, std::ios::binary);
    if (!file && std::filesystem::exists(status_of(path_)))
        throw UsageError(what_ + ": " + path_.string() +
                         " is there and can't be read, so that it may be no " + what +
                         " that Kiln wrote, and is not overwritten; name another file, or remove it.");
    std::string head(kHeadBytes, '\0');
    file.read(head.data(), static_cast<std::streamsize>(head.size()));
    head.resize(static_cast<std::size_t>(file.gcount()));
    const auto is_in_head = [&](std::string_view mark) { return head.find(mark) != std::string::npos; };
    if (head.empty() || std::ranges::any_of(marks, is_in_head)) return;
    throw UsageError(what_ + ": " + path_.string() + " is no " + what +
                     " that Kiln wrote, and is not overwritten; name another file, or remove it.");
}

void Output::write(std::string_view content) const {
    try {
        write_output(path_, content);
    } catch (const UsageError& error) {
        throw UsageError(what_ + ": " + error.what());
    }
}

std::vector<std::string_view> binary_marks() { return {"\177ELF", "\n.version "}; }

std::filesystem::file_status status_of(const std::filesystem::path& file) {
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(file, error);
    // status() reports a file that is not there as an error too.
    if (!std::filesystem::status_known(status))
        throw UsageError("can't find out whether " + file.string() + " exists: " + error.message() + ".");
    return status;
}

}  // namespace kiln::cli
