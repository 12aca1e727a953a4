// SPDX-License-Identifier: Apache-2.0
//
// What the tests of kiln share: a template that compiles quickly, with one value that does not compile.
#pragma once

#include <gmock/gmock.h>

#include "program.h"

namespace kiln::test {

/// ADD=7 is legal and does not compile; ADD=8 is against the rule.
inline std::string tiny_template() {
    return "// tiny: adds a constant, for tests.\n//\n//@ kernel tiny\n"
           "//@ param ADD int in 1, 2, 3, 4, 5, 6, 7, 8 = 1 \"what is added\"\n"
           "//@ param MUL int in 1..4 = 1 \"what is multiplied\"\n"
           "//@ require ADD < 8 \"eight is too much\"\n"
           "//@ block 32\n//@ grid ceil_div(n, 32)\n#include \"kiln/device.h\"\n\n"
           "static_assert(ADD != 7, \"seven is broken\");\n"
           "extern \"C\" __global__ void tiny(int n, float* x) {\n"
           "    const int i = blockIdx.x * 32 + threadIdx.x;\n"
           "    if (i < n) x[i] = MUL * x[i] + ADD;\n}\n";
}

class Kiln : public Program {
  protected:
    Kiln() : Program("kiln"), templates_(with_template("tiny", tiny_template())) {}

    /// The command with the tiny template, for the host.
    Outcome on_host(Arguments arguments, Environment environment = {}) const {
        for (const char* more : {"--backend", "host", "--template-dir"}) arguments.emplace_back(more);
        arguments.push_back(templates_);
        return run(std::move(arguments), std::move(environment));
    }
    Outcome build(const std::string& add) const { return on_host({"build", "tiny", "ADD=" + add, "--json"}); }

    void expect_error(const Outcome& outcome, int status, const std::vector<std::string>& words) const {
        EXPECT_EQ(outcome.status, status) << outcome.err;
        EXPECT_THAT(outcome.out, ::testing::IsEmpty());
        expect_clean_error(outcome, "kiln");
        for (const std::string& word : words) EXPECT_THAT(outcome.err, ::testing::HasSubstr(word));
    }

    const std::string& templates() const { return templates_; }

  private:
    std::string templates_;
};

}  // namespace kiln::test
