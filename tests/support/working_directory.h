// SPDX-License-Identifier: Apache-2.0
//
// WorkingDirectory: another working directory, or several, for a scope.
#pragma once

#include <filesystem>

namespace kiln::test {

class WorkingDirectory {
  public:
    explicit WorkingDirectory(const std::filesystem::path& directory) { go(directory); }
    ~WorkingDirectory() { go(before_); }
    WorkingDirectory(const WorkingDirectory&) = delete;
    WorkingDirectory& operator=(const WorkingDirectory&) = delete;

    static void go(const std::filesystem::path& directory) { std::filesystem::current_path(directory); }

  private:
    const std::filesystem::path before_ = std::filesystem::current_path();
};

}  // namespace kiln::test
