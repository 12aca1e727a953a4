// SPDX-License-Identifier: Apache-2.0
//
// Emitting, and the file that is whole or not there.
#include "cli/emit.h"

#include <kiln/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
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

    void write(const std::string& content) {
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

std::string emitted(Service& service, const Variant& variant, Emit what) {
    switch (what) {
        case Emit::source:
            return service.source(variant).text;
        case Emit::ptx:
            return service.ptx(variant);
        case Emit::log:
            return service.compile(variant).log;
        case Emit::binary: {
            const Binary binary = service.compile(variant);
            return {reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size()};
        }
        case Emit::key: {
            const BuildKey key = service.key(variant);
            return key.digest + "\n" + key.text;
        }
    }
    return {};
}

void write_emitted(const std::string& content, const Options& options, const Terminal& terminal) {
    if (options.output.empty()) {
        if (options.emit == Emit::binary && terminal.output_is_terminal())
            throw UsageError("a binary is not for a terminal: add --output FILE, or send it into a pipe.");
        terminal.print(content);
        return;
    }
    // A device such as /dev/null is written, not replaced.
    std::error_code ignored;
    const auto status = std::filesystem::status(options.output, ignored);
    if (std::filesystem::is_directory(status))
        throw UsageError("--output " + options.output.string() + " is a directory; name a file in it.");
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
        std::FILE* const file = std::fopen(options.output.c_str(), "wb");
        const bool written =
            file != nullptr && std::fwrite(content.data(), 1, content.size(), file) == content.size();
        if (file == nullptr || std::fclose(file) != 0 || !written)
            throw UsageError("--output " + options.output.string() + ": can't write to it.");
        return;
    }
    NewFile file(options.output);
    file.write(content);
    file.publish();
}

}  // namespace kiln::cli
