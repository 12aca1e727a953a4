// SPDX-License-Identifier: Apache-2.0
//
// kiln::kOneBlock: the second number of a kernel's launch bounds, for kernels that want all registers that a block's
// threads can have. ptxas 13.1 and later spill a few so that a second block has room, even where shared memory has none
// for it, unless one block is said to be enough. For compilers before them it is 0, no statement, and their code is the
// one that was measured.
#pragma once

#include "kiln/ptxas.h"

namespace kiln {

constexpr int kOneBlock = kLaterPtxas ? 1 : 0;

}  // namespace kiln
