// SPDX-License-Identifier: Apache-2.0
//
// IncludeTree: the headers that a source finds in include directories. They are found before the compiler starts and
// handed to it in memory, and no include directory reaches it: so each of them is in the build's key by its content,
// and one that was not found is an error of the compiler and never a stale hit.
#pragma once

#include <kiln/build.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "compile/identity_memory.h"

namespace kiln {

/// The BLAKE2b-256 of names and contents; empty for no headers.
std::string includes_digest(const std::vector<Header>& headers);

/// Thread-safe.
class IncludeTree {
  public:
    using Directories = std::function<std::vector<std::filesystem::path>()>;
    /// directories: of the user. platform: tells those of the compiler's platform, when they are first needed. None
    /// need exist. meanwhile: done by another thread during the first search, which takes time too; it must not throw.
    IncludeTree(std::vector<std::filesystem::path> directories, Directories platform,
                std::shared_ptr<IdentityMemory> memory, std::function<void()> meanwhile = {})
        : directories_(std::move(directories)),
          platform_(std::move(platform)),
          meanwhile_(std::move(meanwhile)),
          memory_(std::move(memory)),
          latest_(std::make_shared<Latest>()) {}

    /// Sets source.include_digest, from memory while no file and directory has changed that it depends on.
    void identify(Source& source) const;
    /// The source with the headers that identify() saw as its found_headers, which all callers share. Throws BuildError
    /// when they have changed and no longer are in memory.
    Source with_headers(const Source& source) const;
    /// Where the names of this source are looked for, in their order: absolute, relative ones from the working directory.
    std::vector<std::filesystem::path> directories(const Source& source) const;

  private:
    /// The headers of the latest source, since the next one is often another variant of its template.
    struct Latest {
        std::atomic<bool> is_first{true};
        std::mutex mutex;
        std::string digest;
        std::shared_ptr<const std::vector<Header>> headers;
    };
    std::shared_ptr<const std::vector<Header>> keep(const std::string& digest,
                                                    std::vector<Header> headers) const;

    std::vector<std::filesystem::path> directories_;
    Directories platform_;
    std::function<void()> meanwhile_;
    std::shared_ptr<IdentityMemory> memory_;
    std::shared_ptr<Latest> latest_;
};

}  // namespace kiln
