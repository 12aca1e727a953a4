// SPDX-License-Identifier: Apache-2.0
//
// The way from a command line to a launch does each piece of work once: calls are counted by valgrind's callgrind in
// the program as it is.
#include <gmock/gmock.h>

#include <map>
#include <regex>
#include <sstream>

#include "program.h"
#include "require.h"
#include "sanitized.h"

namespace kiln::test {
namespace {

/// How often each function was called, by its name without arguments.
std::map<std::string, int> calls_in(const std::string& profile) {
    const std::regex function("c?fn=(\\(\\d+\\))(?: (.*))?");
    std::map<std::string, std::string> names;  // they are written out where they come first
    std::map<std::string, int> by_number, by_name;
    std::string called;
    std::istringstream lines(profile);
    for (std::string line; std::getline(lines, line);) {
        std::smatch match;
        if (line.starts_with("calls=")) {
            by_number[called] += std::stoi(line.substr(6));
        } else if ((line.starts_with("cfn=") || line.starts_with("fn=")) &&
                   std::regex_match(line, match, function)) {
            if (match[2].matched) names[match[1]] = match[2];
            if (line.starts_with("cfn=")) called = match[1];
        }
    }
    for (const auto& [number, count] : by_number) {
        static const std::regex version("kiln::v[0-9]+_[0-9]+::");  // the API's inline namespace
        const std::string name = std::regex_replace(names[number], version, "kiln::");
        by_name[name.substr(0, name.find_first_of("([", 1))] += count;
    }
    return by_name;
}

class Once : public JitGemm {
  protected:
    std::map<std::string, int> calls(Arguments arguments) const {
        const Arguments valgrind = {"valgrind", "--tool=callgrind",
                                    "--callgrind-out-file=" + path("calls").string(), program()};
        arguments.insert(arguments.begin(), valgrind.begin(), valgrind.end());
        Environment environment = usual_environment();
        environment.emplace_back("PATH", "/usr/bin:/bin");
        environment.emplace_back("KILN_HOST_IN_PROCESS", "1");
        const Outcome outcome = run_program(std::move(arguments), std::move(environment));
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return calls_in(read_text_if_exists(path("calls")).value_or(""));
    }
};

TEST_F(Once, AServiceATemplateASourceAndAKey) {
    if (kSanitized) GTEST_SKIP() << "valgrind does not run programs with sanitizers";
    ProcessRequest probe;
    probe.arguments = {"valgrind", "--version"};
    KILN_REQUIRE_OR_SKIP("valgrind", run_process(probe).succeeded(), "valgrind is not here");
    const Arguments product = {"--backend", "host", "--bm", "64", "--bn", "64", "--pad",   "1",
                               "--m",       "8",    "--n",  "8",  "--k",  "8",  "--iters", "1"};
    Arguments compile = product;
    compile.resize(14);
    compile.emplace_back("--compile-only");
    for (const Arguments& arguments : {product, compile}) {
        const std::map<std::string, int> calls = this->calls(arguments);
        for (const char* work : {"kiln::Service::Service", "kiln::select_backend", "kiln::Template::parse",
                                 "kiln::specialised_text", "kiln::make_build_key"})
            EXPECT_EQ(calls.contains(work) ? calls.at(work) : 0, 1) << work;
    }
}

}  // namespace
}  // namespace kiln::test
