// SPDX-License-Identifier: Apache-2.0
//
// Written beside its final name, then renamed.
#include "cli/output_file.h"

#include <kiln/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

namespace kiln::cli {
namespace {

/// A temporary file beside its final name, renamed by publish(), removed otherwise.
class NewFile {
  public:
    explicit NewFile(const std::filesystem::path& path)
        : path_(path),
          temporary_(path.string() + ".tmp" + std::to_string(getpid())),
          file_(std::fopen(temporary_.c_str(), "wbx")) {
        if (file_ == nullptr) fail();
    }
    ~NewFile() {
        if (file_ != nullptr) std::fclose(file_);
        if (!published_) std::remove(temporary_.c_str());
    }
    NewFile(const NewFile&) = delete;
    NewFile& operator=(const NewFile&) = delete;

    void write(std::string_view content) {
        if (std::fwrite(content.data(), 1, content.size(), file_) != content.size()) fail();
    }
    void publish() {
        std::FILE* const file = std::exchange(file_, nullptr);
        if (std::fclose(file) != 0) fail();
        if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
        published_ = true;
    }

  private:
    [[noreturn]] void fail() const {
        throw UsageError("--output " + path_.string() + ": can't write this file: " + std::strerror(errno) +
                         ". Name a file in a directory that exists and can be written.");
    }

    std::filesystem::path path_;
    std::string temporary_;
    std::FILE* file_;
    bool published_ = false;
};

}  // namespace

void write_output(const std::filesystem::path& path, std::string_view content) {
    std::error_code ignored;
    const auto status = std::filesystem::status(path, ignored);
    if (std::filesystem::is_directory(status))
        throw UsageError("--output " + path.string() + " is a directory; name a file in it.");
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
        std::FILE* const file = std::fopen(path.c_str(), "wb");
        const bool written =
            file != nullptr && std::fwrite(content.data(), 1, content.size(), file) == content.size();
        if (file == nullptr || std::fclose(file) != 0 || !written)
            throw UsageError("--output " + path.string() + ": can't write to it.");
        return;
    }
    NewFile file(path);
    file.write(content);
    file.publish();
}

}  // namespace kiln::cli
