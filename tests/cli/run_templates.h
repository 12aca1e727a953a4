// SPDX-License-Identifier: Apache-2.0
//
// Templates that declare their problem, for tests of what runs them.
#pragma once

#include <string>

namespace kiln::test {

/// y = FACTOR * x, which its reference says is 2 x.
inline std::string doubling_template() {
    return "// doubling: for tests.\n//\n//@ kernel doubling\n//@ param FACTOR int in 2, 3 = 2\n"
           "//@ param SCALE float = 1\n"
           "//@ block 32\n//@ grid ceil_div(n, 32)\n//@ size n = 1000 test 97\n//@ size m = 2\n"
           "//@ input x [m, n]\n//@ output y [m, n] by doubling_reference\n//@ flops m * n\n"
           "//@ naive doubling_naive\n#include \"kiln/device.h\"\n\n"
           "extern \"C\" __global__ void doubling(int n, int m, const float* x, float* y) {\n"
           "    const int i = blockIdx.x * 32 + threadIdx.x;\n"
           "    for (int row = 0; i < n && row < m; ++row) y[row * n + i] = FACTOR * x[row * n + i];\n}\n";
}

/// The same, slowly.
inline std::string naive_doubling_template() {
    return "// doubling_naive: for tests.\n//\n//@ kernel doubling_naive\n//@ block 1\n//@ grid 1\n"
           "//@ size n = 10\n//@ size m = 2\n//@ input x [m, n]\n//@ output y [m, n]\n#include "
           "\"kiln/device.h\"\n\n"
           "extern \"C\" __global__ void doubling_naive(int n, int m, const float* x, float* y) {\n"
           "    for (int i = 0; i < n * m; ++i) y[i] = 2 * x[i];\n}\n";
}

/// A reference in which `body` sets expected[i] and bound[i] for element e.
inline std::string reference_template(const std::string& name, const std::string& arguments,
                                      const std::string& body) {
    return "// " + name + ": for tests.\n//\n//@ kernel " + name +
           "\n//@ backend host\n//@ block 32\n//@ grid ceil_div(count, 32)\n#include \"kiln/reference.h\"\n\n"
           "extern \"C\" __global__ void " +
           name + "(long long count, const long long* which, double* expected, double* bound, " + arguments +
           ") {\n"
           "    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;\n"
           "    if (i >= count) return;\n    const long long e = which ? which[i] : i;\n    " +
           body + "\n}\n";
}

/// Calls add(name, text) with doubling, its reference and its naive template.
template <class Add>
void add_doubling_templates(const Add& add) {
    add("doubling", doubling_template());
    add("doubling_naive", naive_doubling_template());
    add("doubling_reference", reference_template("doubling_reference", "const float* x",
                                                 "expected[i] = 2 * kiln::wide(x[e]);\n    bound[i] = 0;"));
}

}  // namespace kiln::test
