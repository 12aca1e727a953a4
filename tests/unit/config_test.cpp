// SPDX-License-Identifier: Apache-2.0
//
// base/config: values that are none are errors that name the variable; docs/environment.md has all variables, those of
// tests and scripts too, and no others.
#include "base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string_view>

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
        EXPECT_THAT(problem("KILN_HOST_SEED", junk, config::host_seed),
                    HasSubstr("KILN_HOST_SEED is set to \"" + std::string(junk) + "\"; it is an integer"));
}

// As the XDG Base Directory Specification says.
TEST(Config, RelativeBaseDirectoriesAreIgnored) {
    const ScopedVariable cache("KILN_CACHE_DIR", ""), wisdom("KILN_WISDOM", ""), home("HOME", "/home/x");
    {
        const ScopedVariable one("XDG_CACHE_HOME", "rel"), other("XDG_CONFIG_HOME", "./rel");
        EXPECT_EQ(config::cache_directory(), "/home/x/.cache/kiln");
        EXPECT_EQ(config::wisdom_file(), "/home/x/.config/kiln/wisdom.txt");
    }
    const ScopedVariable one("XDG_CACHE_HOME", "/c"), other("XDG_CONFIG_HOME", "/w");
    EXPECT_EQ(config::cache_directory(), "/c/kiln");
    EXPECT_EQ(config::wisdom_file(), "/w/kiln/wisdom.txt");
}

TEST(Config, AHostHasAnIntegerNumberOfThreads) {
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

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The variables in a text that `is_read` says are read there, from what stands before and behind the name.
template <class IsRead>
void add_variables(std::set<std::string>& found, const std::string& text, const IsRead& is_read) {
    for (std::size_t at = text.find("KILN_"); at != std::string::npos; at = text.find("KILN_", at + 1)) {
        std::size_t end = at;
        while (end < text.size() && is_word(text[end])) ++end;
        const std::string_view all = text;
        const bool is_name = end - at > std::string_view("KILN_").size();
        if (is_name && is_read(all.substr(0, at), all.substr(end))) found.insert(text.substr(at, end - at));
    }
}

bool is_read_by_a_test(std::string_view before, std::string_view) {
    for (const char* call :
         {"getenv(\"", "environ[\"", "environ['", "environ.get(\"", "environ.get('", "ENV{"})
        if (before.ends_with(call)) return true;
    return false;
}

bool is_read_by_a_script(std::string_view before, std::string_view after) {
    // -DKILN_TLS=ON is a switch of CMake's.
    const bool is_set =
        after.starts_with('=') && (before.empty() || (!is_word(before.back()) && before.back() != '-'));
    return before.ends_with('$') || before.ends_with("${") || is_set;
}

TEST(Config, EveryVariableIsInTheTableOfTheDocs) {
    ASSERT_FALSE(root().empty()) << "KILN_TEST_SOURCE_DIR is not set";
    std::set<std::string> known, read, listed;
    for (const std::string& one : config::known_variables()) known.insert(one);
    add_variables(read, read_text_if_exists(root() / "src/base/config.cpp").value(),
                  [](std::string_view before, std::string_view) {
                      return before.ends_with("(\"") && before.size() > 2 &&
                             is_word(before[before.size() - 3]);
                  });
    EXPECT_EQ(read, known) << "known_variables() has those that are read, and no others";

    for (const char* folder : {"tests", "bench", "examples", "scripts"}) {
        for (const auto& item : fs::recursive_directory_iterator(root() / folder)) {
            if (!item.is_regular_file() || item.path().extension() == ".pyc") continue;
            const std::string text = read_text_if_exists(item.path()).value();
            add_variables(read, text, is_read_by_a_test);
            if (std::string(folder) == "scripts") add_variables(read, text, is_read_by_a_script);
        }
    }
    add_variables(listed, read_text_if_exists(root() / "docs/environment.md").value(),
                  [](std::string_view before, std::string_view) { return before.ends_with("\n| `"); });
    EXPECT_EQ(listed, read);
    for (const std::string& one : config::other_variables()) known.insert(one);
    EXPECT_EQ(listed, known) << "other_variables() has those of tests and scripts";
}

TEST(Config, VariablesOfTestsAndScriptsAreKnown) {
    const ScopedVariable of_tests("KILN_TEST_CACHE_DIR", "/c"), of_scripts("KILN_MATRIX_DIR", "/m"),
        mistyped("KILN_TEST_CACHE_DIRECTORY", "/c");
    const std::vector<std::string> unknown = config::unknown_variables();
    EXPECT_THAT(unknown, testing::Contains("KILN_TEST_CACHE_DIRECTORY"));
    EXPECT_THAT(unknown,
                testing::Not(testing::Contains(testing::AnyOf("KILN_TEST_CACHE_DIR", "KILN_MATRIX_DIR"))));
}

}  // namespace
}  // namespace kiln::test
