// SPDX-License-Identifier: Apache-2.0
//
// kiln::kLaterPtxas: for kernels that fill a thread's registers to the last one. ptxas 13.1 and later keep more
// values alive at once than those before them, so that the same loop spills: there it is unrolled less. Compilers
// before them get the code that was measured.
// kiln::kEarlierPtxas: true for ptxas of CUDA 12.8 and before, which serializes wgmma that later ones overlap.
#pragma once

namespace kiln {

#if defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1301
constexpr bool kLaterPtxas = true;
#else
constexpr bool kLaterPtxas = false;
#endif

#if defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1209
constexpr bool kEarlierPtxas = true;
#else
constexpr bool kEarlierPtxas = false;
#endif

}  // namespace kiln
