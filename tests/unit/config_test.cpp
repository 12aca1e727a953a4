// SPDX-License-Identifier: Apache-2.0
//
// base/config: values that are none are errors that name the variable; docs/environment.md has all variables, those of
// tests and scripts too, and no others.
#include "base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>

#include "base/file.h"
#include "scoped_variable.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

template <class Read>
std::string problem(const char* name, const std::string& value, const Read& read) {
    const ScopedVariable variable(name, value);
    try {
        static_cast<void>(read());
    } catch (const UsageError& error) {
        return error.what();
    }
    return "none";
}

TEST(Config, ASeedIsANumber) {
    const auto seed = [](const std::string& text) {
        const ScopedVariable variable("KILN_HOST_SEED", text);
        return config::host_seed();
    };
    EXPECT_EQ(seed("17"), 17u);
    EXPECT_EQ(seed("0x1f"), 31u);
    EXPECT_EQ(seed("18446744073709551615"), 18446744073709551615u);
    EXPECT_EQ(seed(""), std::nullopt);
    for (const char* junk : {"junk", "3x", "-1", "0x", " 3", "18446744073709551616", "1.5"})
        EXPECT_THAT(
            problem("KILN_HOST_SEED", junk, config::host_seed),
            HasSubstr("KILN_HOST_SEED is set to \"" + std::string(junk) + "\"; it is a whole number"));
}

TEST(Config, AHostHasAWholeNumberOfThreads) {
    EXPECT_EQ(problem("KILN_HOST_THREADS", "0", config::host_threads), "none");
    EXPECT_EQ(problem("KILN_HOST_THREADS", "4096", config::host_threads), "none");
    for (const char* junk : {"two", "-1", "4097", "2 threads"})
        EXPECT_THAT(problem("KILN_HOST_THREADS", junk, config::host_threads),
                    HasSubstr("KILN_HOST_THREADS is set to \"" + std::string(junk)));
}

fs::path root() {
    const char* const source = std::getenv("KILN_TEST_SOURCE_DIR");
    return source == nullptr ? fs::path() : fs::path(source);
}

void add_matches(std::set<std::string>& found, const std::string& text, const std::string& pattern) {
    const std::regex expression(pattern);
    for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match)
        found.insert((*match)[1]);
}

TEST(Config, EveryVariableIsInTheTableOfTheDocs) {
    ASSERT_FALSE(root().empty()) << "KILN_TEST_SOURCE_DIR is not set";
    std::set<std::string> known, read, listed;
    for (const std::string& one : config::known_variables()) known.insert(one);
    add_matches(read, read_text_if_exists(root() / "src/base/config.cpp").value(), R"re(\w\("(KILN_\w+)")re");
    EXPECT_EQ(read, known) << "known_variables() has those that are read, and no others";

    for (const char* folder : {"tests", "bench", "examples", "scripts"}) {
        for (const auto& item : fs::recursive_directory_iterator(root() / folder)) {
            if (!item.is_regular_file() || item.path().extension() == ".pyc") continue;
            const std::string text = read_text_if_exists(item.path()).value();
            if (text.find("KILN_") == std::string::npos) continue;
            add_matches(read, text, R"re(getenv\("(KILN_\w+)")re");
            add_matches(read, text, R"re(environ(?:\.get)?[\[\(]["'](KILN_\w+))re");
            add_matches(read, text, R"re(ENV\{(KILN_\w+)\})re");
            if (std::string(folder) == "scripts") {
                add_matches(read, text, R"re(\$\{?(KILN_\w+))re");
                add_matches(read, text, R"re((?:^|[^-\w])(KILN_[A-Z_]+)=)re");
            }
        }
    }
    add_matches(listed, read_text_if_exists(root() / "docs/environment.md").value(),
                R"re(\n\| `(KILN_\w+)` \|)re");
    EXPECT_EQ(listed, read);
}

}  // namespace
}  // namespace kiln::test
