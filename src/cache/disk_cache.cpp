// SPDX-License-Identifier: Apache-2.0
//
// Entries lie at <directory>/v1/<first two digits>/<digest>.kiln.
#include "cache/disk_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/file.h"
#include "cache/entry.h"

namespace kiln {
namespace {

// mkdir -p with mode 0700 for what is made. Returns an error text, empty on success.
std::string make_directories(const std::filesystem::path& directory) {
    std::filesystem::path built;
    for (const auto& part : directory) {
        built /= part;
        if (part.empty() || part == "/") continue;
        if (::mkdir(built.c_str(), 0700) == 0 || errno == EEXIST) continue;
        const int error = errno;
        struct stat status;
        // On a read-only file system a directory that is there gives EROFS, and "/" and mount points
        // may give EACCES or EPERM.
        if (::stat(built.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) continue;
        return built.string() + ": " + std::strerror(error);
    }
    struct stat status;
    if (::stat(directory.c_str(), &status) != 0) return directory.string() + ": " + std::strerror(errno);
    if (!S_ISDIR(status.st_mode)) return directory.string() + " is not a directory";
    return {};
}

}  // namespace

DiskCache::DiskCache(std::filesystem::path directory) {
    std::error_code error;
    directory_ = std::filesystem::absolute(directory, error).lexically_normal();
    if (directory_.empty()) directory_ = std::move(directory);
    if (!directory_.has_filename()) directory_ = directory_.parent_path();
    if (auto problem = make_directories(directory_); !problem.empty()) {
        problem_ = "the cache directory can't be used: " + problem;
    } else if (::access(directory_.c_str(), R_OK | X_OK) != 0) {
        problem_ = "the cache directory can't be read: " + directory_.string() + ": " + std::strerror(errno);
    } else {
        usable_ = true;
        if (::access(directory_.c_str(), W_OK) != 0)
            problem_ = "the cache directory can't be written to: " + directory_.string() + ": " +
                       std::strerror(errno);
    }
}

std::string DiskCache::problem() const {
    const std::lock_guard lock(mutex_);
    return problem_;
}

void DiskCache::note_problem(std::string text) {
    const std::lock_guard lock(mutex_);
    if (problem_.empty()) problem_ = std::move(text);
}

std::filesystem::path DiskCache::entry_path(const BuildKey& key) const {
    return directory_ / "v1" / key.digest.substr(0, 2) / (key.digest + ".kiln");
}

DiskCache::Lookup DiskCache::find(const BuildKey& key) const {
    if (!usable_) return {};
    try {
        const auto path = entry_path(key);
        const auto bytes = read_bytes_if_exists(path);
        if (!bytes) return {};
        std::string reason;
        auto entry = decode_entry(*bytes, reason);
        if (!entry) return {std::nullopt, path.string() + " was not used: " + reason};
        if (entry->key_text != key.text)
            return {std::nullopt, path.string() + " was not used: it was made from other ingredients"};
        return {std::move(entry->binary), {}};
    } catch (const std::exception& exception) {
        return {std::nullopt, exception.what()};
    }
}

bool DiskCache::store(const BuildKey& key, const Binary& binary) {
    if (!usable_) return false;
    try {
        const auto path = entry_path(key);
        if (auto problem = make_directories(path.parent_path()); !problem.empty()) {
            note_problem("a cache entry can't be stored: " + problem);
            return false;
        }
        write_atomically(path, encode_entry(key, binary));
        return true;
    } catch (const std::exception& exception) {
        note_problem(std::string("a cache entry can't be stored: ") + exception.what());
        return false;
    }
}

}  // namespace kiln
