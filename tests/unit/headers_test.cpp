// SPDX-License-Identifier: Apache-2.0
//
// <kiln/kiln.h> has all public headers of libkiln.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>

#include "base/file.h"

namespace kiln {
namespace {

TEST(PublicHeaders, AreAllInKilnH) {
    const char* const root = std::getenv("KILN_TEST_SOURCE_DIR");
    ASSERT_NE(root, nullptr);
    const std::filesystem::path folder = std::filesystem::path(root) / "include" / "kiln";
    std::set<std::string> expected, included;
    for (const auto& item : std::filesystem::directory_iterator(folder)) {
        const std::string name = item.path().filename().string();
        if (item.path().extension() == ".h" && name != "kiln.h")
            expected.insert("#include <kiln/" + name + ">");
    }
    std::istringstream text(read_text_if_exists(folder / "kiln.h").value_or(""));
    for (std::string line; std::getline(text, line);)
        if (line.starts_with("#include")) included.insert(line);
    EXPECT_EQ(included, expected);
}

}  // namespace
}  // namespace kiln
