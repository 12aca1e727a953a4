// SPDX-License-Identifier: Apache-2.0
//
// Runs jit-gemm and kiln as a person would, with a cache directory of their own; and the template texts that
// tests feed to them.
#pragma once

#include <gtest/gtest.h>
#include <kiln/device.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/dynamic_library.h"
#include "base/file.h"
#include "base/process.h"

namespace kiln::test {

using Arguments = std::vector<std::string>;
using Environment = std::vector<std::pair<std::string, std::string>>;

inline bool has_gpu() { return !Device::list(Backend::cuda).empty() || !Device::list(Backend::hip).empty(); }

struct Outcome {
    int status = -1;
    std::string out;
    std::string err;

    nlohmann::json json() const { return nlohmann::json::parse(out); }
};

/// A program in the test's directory, run with its own folder.
class Program : public ::testing::Test {
  protected:
    explicit Program(std::string name) : program_((own_directory() / name).string()) {}

    /// Exactly these arguments, and what `environment` sets: see run_program.
    Outcome run(Arguments arguments, Environment environment = {}) const {
        arguments.insert(arguments.begin(), program_);
        return run_program(std::move(arguments), std::move(environment));
    }

    /// A shell command in which "$0" is the program.
    Outcome run_in_shell(const std::string& command, Environment environment = {}) const {
        return run_program({"/bin/sh", "-c", command, program_}, std::move(environment));
    }

    Environment usual_environment() const { return {{"KILN_CACHE_DIR", path("cache").string()}}; }
    const std::string& program() const { return program_; }

    /// Writes NAME.cu into a template directory and returns that directory.
    std::string with_template(const std::string& name, const std::string& text) const {
        const auto directory = folder_.path() / "templates";
        std::filesystem::create_directories(directory);
        write_text(directory / (name + ".cu"), text);
        return directory.string();
    }

    std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
    std::string write(const std::string& name, const std::string& text) const {
        write_text(path(name), text);
        return path(name).string();
    }

    /// What the user of this machine has set up must not matter: unless a test says where they are, the cache is the test's
    /// own, and wisdom and calibration are those of a directory that isn't there.
    Outcome run_program(Arguments arguments, Environment environment) const {
        const auto gives = [&](const char* name) {
            return std::ranges::any_of(environment, [&](const auto& one) { return one.first == name; });
        };
        const bool gives_home = gives("HOME");
        if (!gives("KILN_CACHE_DIR") && !gives("XDG_CACHE_HOME") && !gives("XDG_CONFIG_HOME") && !gives_home)
            environment.emplace_back("KILN_CACHE_DIR", path("cache").string());
        if (!gives("XDG_CONFIG_HOME"))
            environment.emplace_back("XDG_CONFIG_HOME", gives_home ? "" : path("config").string());
        if (!gives("KILN_WISDOM")) environment.emplace_back("KILN_WISDOM", "");
        ProcessRequest request;
        request.arguments = std::move(arguments);
        request.environment = std::move(environment);
        request.timeout = limit_;
        const ProcessResult result = run_process(request);
        EXPECT_TRUE(result.started) << result.start_error;
        EXPECT_FALSE(result.timed_out);
        EXPECT_EQ(result.signal, 0) << result.error;
        return {result.exit_status, result.output, result.error};
    }

  protected:
    std::chrono::seconds limit_{240};  // of a program that hangs

  private:
    std::string program_;
    TemporaryDirectory folder_;
};

class JitGemm : public Program {
  protected:
    JitGemm() : Program("jit-gemm") {}

    /// A small product on the host, and these arguments.
    Outcome multiply(const Arguments& more = {}, Environment environment = {}) const {
        Arguments arguments = {"--backend", "host", "--kernel", "gemm_naive", "--m",
                               "5",         "--n",  "6",        "--k",        "7"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(std::move(arguments), std::move(environment));
    }

    /// gemm_tiled on the host, without running it, and these arguments.
    Outcome compile_tiled(const Arguments& more = {}) const {
        Arguments arguments = {"--backend", "host", "--emit", "key"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(std::move(arguments));
    }
};

/// One paragraph on standard error with the program's name in front, and nothing that a person should
/// not have to read.
inline void expect_clean_error(const Outcome& outcome, const std::string& program = "jit-gemm") {
    EXPECT_EQ(outcome.err.rfind(program + ": ", 0), 0U) << outcome.err;
    for (const char* bad : {"terminate called", "Aborted", "Segmentation", "what():", "\033", "boost"})
        EXPECT_EQ(outcome.err.find(bad), std::string::npos) << outcome.err;
}

/// A naive product of half matrices whose kernel is called `name`, with one more front-matter line and
/// an expression for the columns it computes ("n", or "n - 1" to be wrong).
inline std::string naive_template(const std::string& name, const std::string& line,
                                  const std::string& columns) {
    return "// " + name + ": a product for tests.\n//\n//@ kernel " + name + "\n" + line +
           "\n//@ block 16, 16\n//@ grid ceil_div(n, 16), ceil_div(m, 16)\n#include \"kiln/device.h\"\n\n"
           "extern \"C\" __global__ void " +
           name +
           "(int m, int n, int k, const kiln::half* a, const kiln::half* b, float* c) {\n"
           "    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;\n"
           "    if (row >= m || column >= " +
           columns +
           ") return;\n"
           "    float sum = 0;\n"
           "    for (int i = 0; i < k; ++i)\n"
           "        sum += static_cast<float>(a[(long long)row * k + i]) * static_cast<float>(b[(long long)i "
           "* n + "
           "column]);\n"
           "    c[(long long)row * n + column] = sum;\n"
           "}\n";
}

}  // namespace kiln::test
