// gemm_wgmma_any: C = A * B on Hopper's tensor cores, for rows of any length and any addresses
//
// A is m x k, B is k x n, C is m x n, all row-major. gemm_wgmma is the faster one where n and k are multiples of
// 8; TMA takes no other rows. Here two warpgroups, the producers, take every other step of k each, by
// plain loads that they shift into place (kiln/any_tile.h), and the others multiply as gemm_wgmma's do.
// Blocks stay: each takes one tile of C after the other, in an order that keeps those which run at the same
// time in a compact part of C. `full` says that a stage has been written, `empty` that nobody reads it any more.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_wgmma_any
//@ param   T       type in half, bfloat16 = half   "element type of A and B; C is float"
//@ param   BM      int in 64, 128 = 128            "rows of C per tile"
//@ param   BN      int in 64, 128, 192, 256 = 128  "columns of C per tile"
//@ param   STAGES  int in 2..8 = 4                 "tiles of A and B in shared memory"
//@ param   GROUP   int in 1, 4, 8, 16 = 8          "rows of tiles of C that are worked through column by column"
//@ let     PRODUCERS   = 2                  "warpgroups that copy"
//@ let     CONSUMERS   = BM / 64            "warpgroups that multiply"
//@ let     THREADS     = 128 * (PRODUCERS + CONSUMERS)
//@ let     STAGE_BYTES = (BM + BN) * 128    "a tile of A and one of B"
//@ let     STORE_BYTES = CONSUMERS * 8192   "a box of 2 KiB per warp, through which C leaves"
//@ require BM * BN <= 128 * 128   "512 threads have registers for 128 x 128 results beside those that load"
//@ size    m = 4096 test 131  "rows of A and C"
//@ size    n = 4096 test 265  "columns of B and C"
//@ size    k = 4096 test 139  "columns of A and rows of B"
//@ input   a [m, k]
//@ input   b [k, n]
//@ output  c [m, n] by gemm_reference exact
//@ flops   2 * m * n * k
//@ naive   gemm_naive
//@ block   THREADS
//@ grid    min(ceil_div(m, BM) * ceil_div(n, BN), max(device.multiprocessors, 1))
//@ shared  STAGES * STAGE_BYTES + STORE_BYTES + STAGES * 16
//@ backend cuda, host
//@ arch    sm_90a
//@ model   engine wgmma
//@ model   tile BM, BN of m, n, k
//@ model   stages STAGES
//@ model   copies registers
//@ model   search [BM, BN, STAGES]
//@ model   search host [BM, BN]
#include "kiln/any_tile.h"
#include "kiln/gemm_wgmma.h"

constexpr int kDepth = 64;  // of k per tile: what a row of 128 bytes holds
constexpr int kRowBytes = 128;
constexpr int kTileBytesA = BM * kRowBytes;
constexpr int kSliceBytesB = kDepth * kRowBytes;  // 64 columns of a tile of B
static_assert(kTileBytesA + BN * kRowBytes == STAGE_BYTES && kiln::kStoreBoxBytes == 2048);

using Turn = kiln::RingTurn<STAGES>;
using Tiles = kiln::ClusterTiles<BM, BN, 1, 1, 1, GROUP>;

struct Shared {
    unsigned char* tiles;
    unsigned char* stores;
    kiln::Barrier* full;
    kiln::Barrier* empty;

    __device__ __forceinline__ unsigned char* a(unsigned stage) const {
        return tiles + stage * STAGE_BYTES;
    }
    __device__ __forceinline__ unsigned char* b(unsigned stage) const { return a(stage) + kTileBytesA; }
};

// By the warpgroup `producer`. It is never so far ahead of the other that the two phases of a barrier could
// be mistaken: whoever multiplies takes the stages in their order.
__device__ __forceinline__ void produce(const Shared& shared, Tiles tiles, unsigned steps, unsigned producer,
                                        const kiln::AnyMatrix<T>& a, const kiln::AnyMatrix<T>& b) {
    const int thread = static_cast<int>(threadIdx.x % 128);
    Turn turn;
    bool is_mine = producer == 0;
    while (tiles.advance()) {
        for (unsigned step = 0; step < steps; ++step, turn.advance(), is_mine = !is_mine) {
            if (!is_mine) continue;
            kiln::barrier_wait(&shared.empty[turn.stage], turn.parity ^ 1u);
            const kiln::i64 depth = static_cast<kiln::i64>(step) * kDepth;
            kiln::AnyTile<T, BM, kDepth, 128>::load(shared.a(turn.stage), a, tiles.row, depth, thread);
            kiln::AnyTile<T, kDepth, BN, 128>::load(shared.b(turn.stage), b, depth, tiles.column, thread);
            kiln::fence_async_proxy();
            __syncwarp();
            if (thread % 32 == 0) kiln::barrier_arrive(&shared.full[turn.stage]);
        }
    }
}

// By the warpgroup `consumer`.
__device__ __forceinline__ void consume(const Shared& shared, Tiles tiles, unsigned steps, unsigned consumer,
                                        float* c, int m, int n) {
    const unsigned warp = threadIdx.x / 32 % 4;
    const unsigned lane = threadIdx.x % 32;
    Turn turn;
    kiln::WgmmaSums<BN> sums[1];
    while (tiles.advance()) {
        unsigned last_stage = 0;
        for (unsigned step = 0; step < steps; ++step) {
            kiln::barrier_wait(&shared.full[turn.stage], turn.parity);
            kiln::multiply_stage<T>(sums, shared.a(turn.stage) + consumer * 64 * kRowBytes,
                                    shared.b(turn.stage), kSliceBytesB, step != 0);
            // The next stage is multiplied while this group goes on; only the one before has to end.
            kiln::wgmma_wait<1>(sums);
            if (step != 0 && lane == 0) kiln::barrier_arrive(&shared.empty[last_stage]);
            last_stage = turn.stage;
            turn.advance();
        }
        kiln::wgmma_wait<0>(sums);
        if (lane == 0) kiln::barrier_arrive(&shared.empty[last_stage]);
        kiln::store_sums_by_rows(sums[0], shared.stores + (consumer * 4 + warp) * kiln::kStoreBoxBytes, c, m,
                                 n, tiles.row + (consumer * 4 + warp) * 16, tiles.column, lane);
    }
}

extern "C" __global__ __launch_bounds__(THREADS, 1) void gemm_wgmma_any(int m, int n, int k, const T* a,
                                                                         const T* b, float* c) {
    if (k == 0) return kiln::store_zeros(c, m, n);
    Shared shared;
    shared.tiles = kiln::dynamic_shared<unsigned char>();
    shared.stores = shared.tiles + STAGES * STAGE_BYTES;
    shared.full = reinterpret_cast<kiln::Barrier*>(shared.stores + STORE_BYTES);
    shared.empty = shared.full + STAGES;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            kiln::barrier_init(&shared.full[stage], 4);
            kiln::barrier_init(&shared.empty[stage], CONSUMERS * 4);
        }
        kiln::barrier_init_fence();
    }
    __syncthreads();

    const Tiles tiles(m, n);
    const unsigned steps = (static_cast<unsigned>(k) + kDepth - 1) / kDepth;
    // The same for all lanes, which the compiler can't tell from threadIdx.
    const unsigned group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    if (group < PRODUCERS)
        produce(shared, tiles, steps, group, {a, m, k}, {b, k, n});
    else
        consume(shared, tiles, steps, group - PRODUCERS, c, m, n);
}
