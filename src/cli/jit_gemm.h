// SPDX-License-Identifier: Apache-2.0
//
// jit-gemm: builds a GEMM kernel from its template, multiplies random matrices, verifies the result and
// reports it.
#pragma once

#include <string>
#include <vector>

namespace kiln::cli {

/// Runs the program on its arguments (without its name). Returns the exit status: 0 passed, 1 wrong
/// result, 2 usage or an illegal variant, 3 compile error, 4 device or launch error, 128 + N ended by
/// signal N. Throws nothing.
int jit_gemm(const std::vector<std::string>& arguments);

}  // namespace kiln::cli
