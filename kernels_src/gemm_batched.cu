// gemm_batched: C = activation(ALPHA * A * B + BETA * C + bias) for each matrix of a batch, A and B row- or column-major
//
// The matrices of a batch follow each other: A is m x k, with TRANS_A k x m; B is k x n, with TRANS_B n x k; C is
// m x n; bias has one element per column. ALPHA and BETA are as in BLAS: where BETA is 0, C is only written, and
// may hold anything before. Without BIAS, bias is not read. Products are summed in float, in order of k.
// Whichever operand has k along its rows is transposed on its way into shared memory, with a swizzle that
// keeps those stores out of each other's banks; two buffers, and the next tile in registers (see gemm_buffered).
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_batched
//@ param   T           type in half, bfloat16, float = half  "element type of A and B; C and bias are float"
//@ param   BM          int in 32, 64, 128 = 64               "rows of C per block"
//@ param   BN          int in 32, 64, 128 = 64               "columns of C per block"
//@ param   BK          int in 8, 16, 32 = 16                 "steps of k per tile"
//@ param   TM          int in 4, 8 = 4                       "rows of C per thread"
//@ param   TN          int in 4, 8 = 4                       "columns of C per thread"
//@ param   VEC         int in 1, 2, 4, 8 = 4                 "elements per access to global memory and to the tiles"
//@ param   TRANS_A     bool = false                          "each A is stored k x m"
//@ param   TRANS_B     bool = false                          "each B is stored n x k"
//@ param   ALPHA       float = 1                             "factor of the product"
//@ param   BETA        float = 0                             "factor of what C held before; 0: it is not read"
//@ param   BIAS        bool = false                          "bias[j] is added to column j"
//@ param   ACTIVATION  int in 0, 1, 2, 3 = 0                 "0: none, 1: relu, 2: gelu, 3: silu"
//@ require TM % VEC == 0 && TN % VEC == 0    "a thread's rows and columns are read VEC at a time"
//@ require VEC * sizeof(T) <= 16             "one access moves 16 bytes at most"
//@ require BM % (4 * TM) == 0                "32 threads are 4 rows of threads, so BM must be a multiple of 4 * TM"
//@ require BN % (8 * TN) == 0                "32 threads are 8 columns of threads, so BN must be a multiple of 8 * TN"
//@ require max(BM, BN) * BK <= 16 * threads  "a thread fetches 16 elements of a tile at most; choose a smaller BK, or fewer results per thread"
//@ require threads * (TM * TN + TM + TN + 40) + (BM + BN) * BK * sizeof(T) / 4 <= device.registers_per_block  "the results, fragments and fetched tiles of all threads must fit the registers"
//@ block   (BM / TM) * (BN / TN)
//@ grid    ceil_div(n, BN) * ceil_div(m, BM) * batch
//@ shared  2 * BK * (BM + BN) * sizeof(T)
//@ size    m = 1024 test BM + 1      "rows of A and C"
//@ size    n = 1024 test BN + 9      "columns of B and C"
//@ size    k = 1024 test 2 * BK + 3  "what A and B are summed over"
//@ size    batch = 8 test 3          "products"
//@ input   a [batch, TRANS_A ? k : m, TRANS_A ? m : k]
//@ input   b [batch, TRANS_B ? n : k, TRANS_B ? k : n]
//@ input   bias [n]
//@ inout   c [batch, m, n] by gemm_batched_reference
//@ flops   2 * m * n * k * batch
//@ model   tile BM, BN, BK of m, n, k, batch
//@ model   thread TM, TN, VEC
//@ model   search [BM, BN], [BM, TM], [BN, TN], [BK], [VEC]
//@ model   search host [BM, BN], [BK], [TM, TN, VEC]
#include "kiln/epilogue.h"
#include "kiln/gemm_tile.h"

using kiln::i64;
using Threads = kiln::ThreadTile<BM, BN, TM, TN, VEC>;
using TileA = kiln::OperandTile<T, BK, BM, !TRANS_A, VEC, Threads::kThreads, 0, true>;
using TileB = kiln::OperandTile<T, BK, BN, TRANS_B, VEC, Threads::kThreads, 0, true>;

extern "C" __global__ __launch_bounds__(Threads::kThreads,
                                        1) void gemm_batched(int m, int n, int k, int batch,
                                                             const T* __restrict__ a, const T* __restrict__ b,
                                                             const float* __restrict__ bias,
                                                             float* __restrict__ c) {
    T* const shared = kiln::dynamic_shared<T>();

    // The grid is a line, since its y and z extents could not hold every m and batch.
    const unsigned blocks_per_row = (static_cast<unsigned>(n) + BN - 1) / BN;
    const unsigned blocks_per_matrix = gridDim.x / static_cast<unsigned>(batch);
    const i64 matrix = blockIdx.x / blocks_per_matrix;
    const unsigned block = blockIdx.x % blocks_per_matrix;
    const int first_row = static_cast<int>(block / blocks_per_row) * BM;
    const int first_col = static_cast<int>(block % blocks_per_row) * BN;
    const int rows = m - first_row;
    const int cols = n - first_col;
    const int thread = threadIdx.x;
    const Threads mine(thread);

    const int pitch_a = TRANS_A ? m : k;
    const int pitch_b = TRANS_B ? k : n;
    const i64 corner_a = TRANS_A ? first_row : static_cast<i64>(first_row) * pitch_a;
    const i64 corner_b = TRANS_B ? static_cast<i64>(first_col) * pitch_b : first_col;
    TileA next_a(a + matrix * m * k, corner_a, pitch_a, rows, thread);
    TileB next_b(b + matrix * n * k, corner_b, pitch_b, cols, thread);
    float sums[TM][TN] = {};
    kiln::multiply_all<VEC, true, 2>(next_a, next_b, k, shared, mine, sums);

    c += (matrix * m + first_row) * n + first_col;
    if (BIAS) bias += first_col;
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int row = mine.row(i);
            const int col = mine.col(j);
            if (row < rows && col < cols)
                sums[i][j] = kiln::epilogue<ACTIVATION>(
                    ALPHA, sums[i][j], BETA, c[static_cast<i64>(row) * n + col], BIAS ? bias[col] : 0.0f);
        }
    }
    kiln::store_results<VEC>(c, n, rows, cols, mine, sums);
}
