// SPDX-License-Identifier: Apache-2.0
//
// A stand-in for a profiler: a script of that name in a folder of its own, which notes its arguments.
#pragma once

#include <kiln/tools/profile.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/file.h"

namespace kiln::test {

/// What ncu printed on a real GPU: two transposes and a product.
inline std::string recorded_page() {
    const char* source = std::getenv("KILN_TEST_SOURCE_DIR");
    return read_text_if_exists(std::filesystem::path(source != nullptr ? source : ".") /
                               "tests/inspect/data/ncu_page.csv")
        .value_or("");
}

class FakeTool {
  public:
    /// body: shell lines. $PAGE is a file with the recorded page.
    FakeTool(ProfileTool tool, const std::string& body) : tool_(tool) {
        write_text(folder_.path() / "page.csv", recorded_page());
        const auto path = folder_.path() / name(tool);
        write_text(path,
                   "#!/bin/sh\nif [ \"$1\" = --version ]; then\n    echo 'a profiler'\n"
                   "    echo 'Version 2025.3.1.0 (build 1) (public-release)'\n    exit 0\nfi\n"
                   "printf '%s\\n' \"$@\" >>'" +
                       (folder_.path() / "arguments").string() + "'\nPAGE='" +
                       (folder_.path() / "page.csv").string() + "'\n" + body + "\n");
        std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    }

    Profiler profiler() const { return {tool_, folder_.path() / name(tool_)}; }
    const std::filesystem::path& folder() const { return folder_.path(); }
    /// One per line, of all runs.
    std::string arguments() const { return read_text_if_exists(folder_.path() / "arguments").value_or(""); }

  private:
    ProfileTool tool_;
    TemporaryDirectory folder_;
};

}  // namespace kiln::test
