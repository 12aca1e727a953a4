// elementwise: y = F(a, ...) for each place of one to four arrays and one or two results, by vectors
//
// F is code of the caller: it gets the elements of one place as floats, x[0] to x[INPUTS - 1], and sets y[0] to
// y[OUTPUTS - 1], which are rounded to T. A thread has UNROLL accesses to each array under way, a tile of THREADS * VEC apart.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  elementwise
//@ param   T        type in half, bfloat16, float = float    "element type of all arrays"
//@ param   INPUTS   int in 1..4 = 1                          "arrays that are read: a, b, c and d"
//@ param   OUTPUTS  int in 1..2 = 1                          "arrays that are written: y and z"
//@ param   VEC      int in 1, 2, 4, 8 = 16 / sizeof(T)       "elements per access"
//@ param   UNROLL   int in 1, 2, 4 = 2                       "accesses per thread and array"
//@ param   THREADS  int in 128, 256, 512 = 256               "threads per block"
//@ param   F        code = "y[0] = x[0];" (const float (&x)[INPUTS], float (&y)[OUTPUTS], long long i) -> void  "what is computed at place i"
//@ require VEC * sizeof(T) <= 16  "one access moves 16 bytes at most"
//@ size    n = 67108864 test 100003
//@ input   a [n]
//@ input   b [n] if INPUTS > 1
//@ input   c [n] if INPUTS > 2
//@ input   d [n] if INPUTS > 3
//@ output  y [n] by elementwise_reference
//@ output  z [n] by elementwise_second_reference if OUTPUTS > 1
//@ block   THREADS
//@ grid    ceil_div(n, THREADS * VEC * UNROLL)
//@ model   access VEC, UNROLL
//@ model   search [VEC], [UNROLL], [THREADS]
#include "kiln/device.h"

using kiln::i64;

extern "C" __global__ __launch_bounds__(THREADS) void elementwise(long long n, const T* __restrict__ a, T* __restrict__ y,
                                                                  const T* __restrict__ b, const T* __restrict__ c,
                                                                  const T* __restrict__ d, T* __restrict__ z) {
    constexpr int kTile = THREADS * VEC;
    const T* const from[4] = {a, b, c, d};
    T* const to[2] = {y, z};
    const i64 first = static_cast<i64>(blockIdx.x) * (kTile * UNROLL);
    kiln::u64 addresses = 0;
#pragma unroll
    for (int input = 0; input < INPUTS; ++input) addresses |= reinterpret_cast<kiln::u64>(from[input]);
#pragma unroll
    for (int output = 0; output < OUTPUTS; ++output) addresses |= reinterpret_cast<kiln::u64>(to[output]);
    if (addresses % (VEC * sizeof(T)) == 0 && first + kTile * UNROLL <= n) {
        const i64 mine = first + threadIdx.x * VEC;
        kiln::Vec<T, VEC> values[UNROLL][INPUTS];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
            for (int input = 0; input < INPUTS; ++input)
                values[u][input] = kiln::load<VEC>(from[input] + mine + u * kTile);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            kiln::Vec<T, VEC> results[OUTPUTS];
#pragma unroll
            for (int v = 0; v < VEC; ++v) {
                float x[INPUTS], result[OUTPUTS] = {};
#pragma unroll
                for (int input = 0; input < INPUTS; ++input) x[input] = static_cast<float>(values[u][input][v]);
                F(x, result, mine + u * kTile + v);
#pragma unroll
                for (int output = 0; output < OUTPUTS; ++output) results[output][v] = T(result[output]);
            }
#pragma unroll
            for (int output = 0; output < OUTPUTS; ++output)
                kiln::store<VEC>(to[output] + mine + u * kTile, results[output]);
        }
        return;
    }
    const i64 end = kiln::min(n, first + kTile * UNROLL);
    for (i64 i = first + threadIdx.x; i < end; i += THREADS) {
        float x[INPUTS], result[OUTPUTS] = {};
#pragma unroll
        for (int input = 0; input < INPUTS; ++input) x[input] = static_cast<float>(from[input][i]);
        F(x, result, i);
#pragma unroll
        for (int output = 0; output < OUTPUTS; ++output) to[output][i] = T(result[output]);
    }
}
