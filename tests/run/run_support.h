// SPDX-License-Identifier: Apache-2.0
//
// Templates of a few lines with a reference, run on the host.
#pragma once

#include <gmock/gmock.h>
#include <kiln/error.h>
#include <kiln/run.h>

#include <string>
#include <vector>

#include "base/file.h"

namespace kiln::test {

/// A reference in which `body` sets expected[i] and bound[i] for element e; arguments: what it takes also.
inline std::string reference_template(const std::string& name, const std::string& arguments,
                                      const std::string& body, const std::string& lines = "") {
    return "// " + name + ": for tests.\n//\n//@ kernel " + name + "\n" + lines +
           "//@ backend host\n//@ block 32\n//@ grid ceil_div(count, 32)\n#include \"kiln/reference.h\"\n\n"
           "extern \"C\" __global__ void " +
           name + "(long long count, const long long* which, double* expected, double* bound" +
           (arguments.empty() ? "" : ", ") + arguments +
           ") {\n"
           "    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;\n"
           "    if (i >= count) return;\n"
           "    const long long e = which ? which[i] : i;\n    " +
           body + "\n}\n";
}

/// A template whose threads are one line; `i` is the thread's number, and each has one more than `n`.
inline std::string line_template(const std::string& lines, const std::string& arguments,
                                 const std::string& body, const std::string& name = "tested") {
    return "// " + name + ": for tests.\n//\n//@ kernel " + name +
           "\n//@ block 32\n//@ grid ceil_div(n + 1, 32)\n" + lines +
           "#include \"kiln/device.h\"\n\nextern \"C\" __global__ void " + name + "(" + arguments +
           ") {\n    const long long i = static_cast<long long>(blockIdx.x) * 32 + threadIdx.x;\n    " +
           body + "\n}\n";
}

/// What a template that doubles does for element i.
constexpr const char* kRight = "if (i < n) y[i] = 2 * x[i];";

class Run : public ::testing::Test {
  protected:
    /// A template that find() sees; before the first service().
    void add_template(const std::string& name, const std::string& text) {
        write_text(folder_.path() / (name + ".cu"), text);
    }
    Service& service() {
        if (!service_) {
            ServiceOptions options;
            options.backend = Backend::host;
            options.template_directories = {folder_.path()};
            options.cache.directory = cache().path();
            service_ = std::make_unique<Service>(std::move(options));
        }
        return *service_;
    }
    Variant parsed(const std::string& text, const Values& values = {}) {
        return service().parse(text, "tested.cu").variant(values);
    }
    RunResult run(const std::string& text, const RunOptions& options, const Values& values = {}) {
        return Runner(service()).run(parsed(text, values), options);
    }

    /// y = 2 x, with a reference that allows a rounding.
    static std::string doubling(const std::string& body, const std::string& size = "1000 test 97") {
        return line_template("//@ size n = " + size +
                                 "\n//@ input x [n]\n//@ output y [n] by doubling_reference exact\n"
                                 "//@ flops n\n",
                             "int n, const float* x, float* y", body);
    }
    void add_doubling_reference() {
        add_template("doubling_reference",
                     reference_template("doubling_reference", "const float* x",
                                        "expected[i] = 2 * kiln::wide(x[e]);\n"
                                        "    bound[i] = 1e-6 * (x[e] < 0 ? -x[e] : x[e]);"));
    }
    RunResult run_doubling(const std::string& body, const RunOptions& options) {
        add_doubling_reference();
        return run(doubling(body), options);
    }

    static RunOptions once(Sizes sizes = {}) {
        RunOptions options;
        options.sizes = std::move(sizes);
        options.time = false;
        return options;
    }

  private:
    /// One for all tests, since they share references.
    static TemporaryDirectory& cache() {
        static TemporaryDirectory directory;
        return directory;
    }

    TemporaryDirectory folder_;
    std::unique_ptr<Service> service_;
};

}  // namespace kiln::test
