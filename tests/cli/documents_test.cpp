// SPDX-License-Identifier: Apache-2.0
//
// README and docs: links lead to files of the tree, files that are named exist, commands and their options too;
// docs/commands.md names every command, and the code of docs/embedding.md is that of the examples, which are tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/command_line.h"
#include "cli/kiln_command.h"

namespace {

namespace fs = std::filesystem;
using kiln::cli::Command;
using kiln::cli::commands;

fs::path root() { return std::getenv("KILN_TEST_SOURCE_DIR"); }

std::vector<fs::path> documents() {
    std::vector<fs::path> found;
    for (const fs::path& directory : {root(), root() / "docs"})
        for (const auto& file : fs::directory_iterator(directory))
            if (file.path().extension() == ".md") found.push_back(file.path());
    return found;
}

std::string text_of(const fs::path& document) { return kiln::read_text_if_exists(document).value(); }

/// The command that `words` begin with, "cache pack" before "cache"; nullptr: none.
const Command* command_of(const std::vector<std::string>& words) {
    for (const std::size_t count : {2, 1}) {
        if (words.size() <= count) continue;
        const std::string name = count == 2 ? words[1] + " " + words[2] : words[1];
        const auto found = std::ranges::find(commands(), name, &Command::name);
        if (found != commands().end()) return &*found;
    }
    return nullptr;
}

/// What stands on a line of code that calls kiln: up to a comment, a pipe or a second command.
std::vector<std::string> words_of_call(const std::string& line) {
    std::istringstream text(
        line.substr(0, std::min({line.find(" #"), line.find(" |"), line.find(" &&"), line.size()})));
    std::vector<std::string> words;
    for (std::string word; text >> word;) words.push_back(word);
    return words;
}

TEST(Documents, LinksLeadToFiles) {
    const std::regex link(R"(\]\(([^)#:]+)(#[^)]*)?\))");
    for (const fs::path& document : documents()) {
        const std::string text = text_of(document);
        for (std::sregex_iterator found(text.begin(), text.end(), link), end; found != end; ++found)
            EXPECT_TRUE(fs::exists(document.parent_path() / (*found)[1].str()))
                << document << " links to " << (*found)[1] << ", which is not there";
    }
}

TEST(Documents, NameFilesOfTheTree) {
    const std::regex name(R"(\b(src|include|kernels_src|tests|docs|cmake|examples)/[\w./-]*\w)");
    std::size_t names = 0;
    for (const char* document : {"ARCHITECTURE.md", "CONTRIBUTING.md"}) {
        const std::string text = text_of(root() / document);
        for (std::sregex_iterator found(text.begin(), text.end(), name), end; found != end; ++found) {
            if (found->str().find("NAME") != std::string::npos) continue;  // stands for a name of your own
            ++names;
            EXPECT_TRUE(fs::exists(root() / found->str()))
                << document << " names " << found->str() << ", which is not there";
        }
    }
    EXPECT_GT(names, 50U);
}

TEST(Documents, CallCommandsAndOptionsThatExist) {
    std::size_t calls = 0;
    for (const fs::path& document : documents()) {
        std::istringstream lines(text_of(document));
        for (std::string line; std::getline(lines, line);) {
            const std::size_t begin = line.find_first_not_of(' ');
            if (begin == std::string::npos || line.compare(begin, 5, "kiln ") != 0) continue;
            const std::vector<std::string> words = words_of_call(line);
            const Command* const command = command_of(words);
            if (command == nullptr) continue;  // prose, whose line begins so
            ++calls;
            const auto options = option_names(*command);
            for (const std::string& word : words) {
                if (!word.starts_with("--") || word == "--json") continue;
                const std::string option = word.substr(2, word.find('=') - 2);
                EXPECT_TRUE(
                    std::ranges::any_of(options, [&](const auto& known) { return known.first == option; }))
                    << document << ": kiln " << command->name << " has no option " << word;
            }
        }
    }
    EXPECT_GT(calls, 40U);
}

std::string trimmed(const std::string& line) {
    const std::size_t begin = line.find_first_not_of(" \t");
    return begin == line.npos ? "" : line.substr(begin, line.find_last_not_of(" \t") - begin + 1);
}

/// The lines of a text without their indentation, each with its end.
std::string without_indentation(const std::string& text) {
    std::istringstream lines(text);
    std::string all = "\n";
    for (std::string line; std::getline(lines, line);) all += trimmed(line) + "\n";
    return all;
}

// Each block is under a comment with the file that it is from: <!-- examples/gemm.cpp -->. A line of three dots stands for
// what is left out.
TEST(Documents, ShowCodeOfTheExamples) {
    const std::regex origin("<!-- ((examples|tests/capi)/[a-z_./]+) -->", std::regex::icase);
    std::istringstream lines(text_of(root() / "docs/embedding.md"));
    std::string before, file, piece;
    bool in_block = false;
    std::size_t pieces = 0, number = 0;
    for (std::string line; std::getline(lines, line); before = line) {
        ++number;
        if (!in_block) {
            in_block = line.starts_with("```");
            std::smatch found;
            if (!in_block) continue;
            if (!std::regex_match(before, found, origin)) {
                ADD_FAILURE() << "embedding.md:" << number
                              << ": this block does not say which example it is from";
                file.clear();
                continue;
            }
            file = without_indentation(kiln::read_text_if_exists(root() / found[1].str()).value_or(""));
            piece = "\n";
            continue;
        }
        const bool ends = line == "```";
        if (!ends && line != "...") {
            piece += trimmed(line) + "\n";
            continue;
        }
        EXPECT_NE(file.find(piece), std::string::npos)
            << "embedding.md:" << number << ": the example does not have these lines:" << piece;
        piece = "\n";
        ++pieces;
        in_block = !ends;
    }
    EXPECT_GT(pieces, 15U);
}

TEST(Documents, NameEveryCommand) {
    const std::string page = text_of(root() / "docs/commands.md");
    for (const Command& command : commands())
        EXPECT_THAT(page, testing::HasSubstr("kiln " + std::string(command.name)));
}

}  // namespace
