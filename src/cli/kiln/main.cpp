// SPDX-License-Identifier: Apache-2.0
//
// The program kiln; everything is in kiln.h.
#include "cli/kiln.h"

int main(int argc, char** argv) { return kiln::cli::kiln({argv + 1, argv + argc}); }
