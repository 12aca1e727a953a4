// SPDX-License-Identifier: Apache-2.0
//
// docs/tutorial.md: every command of it runs, in order and in one directory, and prints what the page shows.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "program.h"

namespace kiln::test {
namespace {

class Tutorial : public Program {
  protected:
    Tutorial() : Program("kiln") {}
};

struct Block {
    std::string commands;
    std::vector<std::string> shown;  ///< lines of its output
};

/// Blocks of ```sh, each with the ```text behind it.
std::vector<Block> blocks_of(const std::string& page) {
    std::vector<Block> blocks;
    std::string kind;
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("```")) {
            kind = kind.empty() ? line.substr(3) : "";
            if (kind == "sh") blocks.emplace_back();
        } else if (kind == "sh") {
            blocks.back().commands += line + "\n";
        } else if (kind == "text") {
            blocks.back().shown.push_back(line);
        }
    }
    return blocks;
}

TEST_F(Tutorial, EveryCommandWorks) {
    const std::filesystem::path page =
        std::filesystem::path(std::getenv("KILN_TEST_SOURCE_DIR")) / "docs/tutorial.md";
    const std::vector<Block> blocks = blocks_of(read_text_if_exists(page).value());
    ASSERT_GE(blocks.size(), 9u);
    std::filesystem::create_directories(path("work"));
    Environment environment = usual_environment();
    environment.emplace_back(
        "PATH", std::filesystem::path(program()).parent_path().string() + ":" + std::getenv("PATH"));
    for (const Block& block : blocks) {
        // A command that is to fail has a ! in front, which -e passes over.
        std::string script = "set -e; cd '" + path("work").string() + "'\n";
        std::istringstream lines(block.commands);
        for (std::string line; std::getline(lines, line);)
            script += line.starts_with("! ") ? "if " + line.substr(2) + "; then exit 99; fi\n" : line + "\n";
        const Outcome outcome = run_program({"/bin/bash", "-c", script}, environment);
        ASSERT_EQ(outcome.status, 0) << block.commands << outcome.out << outcome.err;
        for (const std::string& line : block.shown)
            EXPECT_THAT(outcome.out + outcome.err, ::testing::HasSubstr(line)) << block.commands;
    }
}

}  // namespace
}  // namespace kiln::test
