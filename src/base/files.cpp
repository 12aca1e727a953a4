// SPDX-License-Identifier: Apache-2.0
//
// The public functions: those of base/output_file.h and base/file.h, with the library's errors.
#include <kiln/error.h>
#include <kiln/files.h>

#include <cerrno>
#include <chrono>
#include <deque>
#include <span>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/file_lock.h"
#include "base/file_name.h"
#include "base/output_file.h"

namespace kiln {
namespace {

template <class Step>
auto with_usage_error(const Step& step) {
    try {
        return step();
    } catch (const std::system_error& error) {
        throw UsageError(std::string(error.what()) + ".");
    }
}

}  // namespace

inline namespace KILN_ABI {

OutputTarget output_target(const std::filesystem::path& name) {
    return with_usage_error([&] {
        const OutputPlace place(name);
        return OutputTarget{place.path(), place.is_stream(), place.is_standard_output()};
    });
}

std::shared_ptr<void> lock_output(const std::filesystem::path& name) {
    return with_usage_error([&]() -> std::shared_ptr<void> {
        const OutputPlace place(name);
        if (place.is_stream()) throw FileError(EINVAL, "can't lock", name, "it is no regular file");
        auto lock = FileLock::acquire_for(place.path(), std::chrono::milliseconds(0));
        return lock ? std::make_shared<FileLock>(std::move(*lock)) : nullptr;
    });
}

void write_output(const std::filesystem::path& name, std::string_view content) {
    with_usage_error([&] { write_output_file(name, content); });
}

void write_outputs(std::span<const std::pair<std::filesystem::path, std::string_view>> files) {
    with_usage_error([&] {
        std::deque<OutputFile> outputs;
        for (const auto& [name, content] : files)
            outputs.emplace_back(name).write(std::as_bytes(std::span(content)));
        for (OutputFile& output : outputs) output.publish();
    });
}

std::string read_input(const std::filesystem::path& name, std::uint64_t most_bytes) {
    return with_usage_error([&] {
        if (auto text = read_text_if_exists(name, most_bytes)) return std::move(*text);
        throw FileError(ENOENT, "can't read", name);
    });
}

std::string read_standard_input(std::uint64_t most_bytes) {
    return with_usage_error([&] { return read_descriptor_text(0, "standard input", most_bytes); });
}

}  // namespace KILN_ABI
}  // namespace kiln
