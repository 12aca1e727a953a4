// SPDX-License-Identifier: Apache-2.0
//
// The revision of what a compiler is given, next to the code that makes it: who changes that code decides here whether
// entries of before may still serve.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/file.h"
#include "base/words.h"
#include "compile/invocation.h"

namespace kiln {
namespace {

struct Invocation {
    std::string_view name, revision;  ///< of compile/invocation.h
    std::vector<std::string> files;   ///< of src/compile
    std::string_view expected;        ///< the revision and the digest of the code
};

// Without blanks and comments.
std::string code_of(const std::filesystem::path& file) {
    std::istringstream lines(read_text_if_exists(file).value());
    std::string code;
    for (std::string line; std::getline(lines, line);) {
        line = trimmed(line);
        if (line.starts_with("//")) continue;
        line.resize(std::min(line.size(), line.find("  // ")));
        for (const char one : line)
            if (one != ' ' && one != '\t') code += one;
    }
    return code;
}

TEST(InvocationGolden, CodeThatMakesWhatACompilerGetsHasARevision) {
    const char* source = std::getenv("KILN_TEST_SOURCE_DIR");
    ASSERT_NE(source, nullptr) << "KILN_TEST_SOURCE_DIR must name the source tree; ctest sets it";
    const Invocation all[] = {
        {"kHostInvocation",
         kHostInvocation,
         {"host_compiler.cpp", "host_entry.cpp"},
         "kiln-host-2 80b8065f93db1911"},
        {"kNvrtcInvocation",
         kNvrtcInvocation,
         {"hoisted_includes.cpp", "include_guard.cpp", "nvrtc_plan.cpp", "nvrtc_program.cpp"},
         "kiln-nvrtc-1 1a3943bc7d9652de"},
        {"kHiprtcInvocation",
         kHiprtcInvocation,
         {"worker/hiprtc_program.cpp"},
         "kiln-compile-2 2a41346b82d9a26b"},
    };
    for (const Invocation& one : all) {
        std::string code;
        for (const std::string& file : one.files)
            code += code_of(std::filesystem::path(source) / "src" / "compile" / file);
        EXPECT_EQ(std::string(one.revision) + " " + digest_hex(code).substr(0, 16), one.expected)
            << "Can a binary of a source that compiled before have other bytes now? Then raise " << one.name
            << " in src/compile/invocation.h, so that no cache serves the old one. Then put the new text "
               "here.";
    }
}

}  // namespace
}  // namespace kiln
