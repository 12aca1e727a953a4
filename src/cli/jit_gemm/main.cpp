// SPDX-License-Identifier: Apache-2.0
//
// The program jit-gemm; everything is in jit_gemm.h.
#include "cli/jit_gemm.h"

int main(int argc, char** argv) { return kiln::cli::jit_gemm({argv + 1, argv + argc}); }
