// SPDX-License-Identifier: Apache-2.0
//
// A template with ways that are quick, slow and wrong, tuned on the host.
#pragma once

#include <gmock/gmock.h>
#include <kiln/error.h>
#include <kiln/tune.h>
#include <kiln/wisdom.h>

#include <memory>
#include <string>
#include <vector>

#include "../run/run_support.h"
#include "tune/wisdom_line.h"

namespace kiln::test {

/// y = 2 x, WORK times over; WAY 4 leaves out one element in the middle; WAY 5 does not compile; WAY 3 writes behind
/// the end.
inline std::string ways_template(const std::string& more = "") {
    return line_template(
        "//@ param T type in float, double = float\n"
        "//@ param WAY int in 1, 2, 3, 4, 5 = 1\n"
        "//@ param WORK int in 1, 50, 400 = 400\n"
        "//@ size n = 3000 test 3000\n//@ input x [n]\n//@ output y [n] by ways_reference\n//@ flops n\n",
        "int n, const T* x, T* y",
        more +
            "static_assert(WAY != 5, \"five is broken\");\n"
            "    if (i < n + (WAY == 3) && !(WAY == 4 && i == n / 2)) {\n"
            "        volatile T sum = 0;\n"
            "        for (int w = 0; w < WORK; ++w) sum = sum + T(1);\n"
            "        y[i] = 2 * x[i < n ? i : 0] + (sum - T(WORK));\n    }",
        "ways");
}

inline std::string ways_reference() {
    return reference_template("ways_reference", "const T* x", "expected[i] = 2.0 * x[e]; bound[i] = 0;",
                              "//@ param T type in float, double = float\n");
}

class Tune : public ::testing::Test {
  protected:
    explicit Tune(const std::string& text = ways_template()) {
        write_text(folder_.path() / "ways.cu", text);
        write_text(folder_.path() / "ways_reference.cu", ways_reference());
    }
    Service& service() {
        if (!service_) service_ = std::make_unique<Service>(options());
        return *service_;
    }
    ServiceOptions options() const {
        ServiceOptions options;
        options.backend = Backend::host;
        options.template_directories = {folder_.path()};
        options.cache.directory = cache().path();
        options.workers = 2;
        return options;
    }
    TuneReport tuned(const TuneOptions& options) {
        const Template of = service().find("ways");
        return tune(service(), std::span(&of, 1), options);
    }
    /// The first line of a journal on this machine.
    std::string journal_head() {
        return "# kiln tuning journal 1: " + service().device().info().name + ", " + service().target().arch +
               ", warm L2\n";
    }
    /// An entry for `ways` as it is, on this machine.
    WisdomEntry entry(std::int64_t n, int work, double ms) {
        WisdomEntry entry;
        entry.template_name = "ways";
        entry.values = {{"T", "float"}, {"WAY", 2}, {"WORK", work}};
        entry.problem_values = {"T"};
        entry.sizes = {{"n", n}};
        entry.device = as_field(service().device().info().name);
        entry.arch = service().target().arch;
        entry.median_ms = ms;
        entry.tried = 3;
        entry.digest = template_digest(service().find("ways"));
        entry.compiler = "g++";
        entry.date = "2026-11-22T00:00:00Z";
        return entry;
    }
    static Wisdom wisdom(const std::vector<WisdomEntry>& entries) {
        Wisdom wisdom;
        wisdom.merge(entries);
        return wisdom;
    }
    const std::filesystem::path& folder() const { return folder_.path(); }

  private:
    /// One for all tests, since they compile the same.
    static TemporaryDirectory& cache() {
        static TemporaryDirectory directory;
        return directory;
    }

    TemporaryDirectory folder_;
    std::unique_ptr<Service> service_;
};

/// For sm_90a, without a device: it chooses, and compiles.
inline Service& hopper() {
    static Service service([] {
        ServiceOptions options;
        options.backend = Backend::cuda;
        options.arch = "sm_90a";
        options.compile_only = true;
        options.cache.enabled = false;
        return options;
    }());
    return service;
}

}  // namespace kiln::test
