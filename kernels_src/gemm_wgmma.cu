// gemm_wgmma: C = A * B on Hopper's tensor cores, out of a ring of tiles in shared memory that TMA fills
//
// A is m x k, B is k x n, C is m x n, all row-major. TMA takes rows that start at multiples of 16 bytes: n
// and k have to be multiples of 8, and the addresses of a, b and c multiples of 16; gemm_wgmma_any
// has no such rule.
// Blocks stay: each takes one tile of C after the other, in an order that keeps those which run at the
// same time in a compact part of C, whose rows of A and columns of B so stay in the L2 cache. One thread,
// the producer, starts the copies of the tiles of A and B; the other warpgroups multiply, each its rows of
// the tile, or with PINGPONG its own tile, so that one stores its results while the other multiplies.
// `full` says that a stage of the ring has landed, `empty` that nobody reads it any more. In a cluster,
// blocks one above the other share the tiles of B and blocks side by side those of A: each loads its part
// of them, and the accelerator writes it to all. Or the blocks of a cluster share one tile, each with a
// part of k (SPLIT): for products with less tiles than the device has multiprocessors. They add up in the
// order of k, out of each other's shared memory.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_wgmma
//@ param   T          type in half, bfloat16 = half      "element type of A and B; C is float"
//@ param   BM         int in 64, 128, 192, 256 = 128     "rows of C per tile"
//@ param   BN         int in 64, 128, 192, 256 = PINGPONG ? 192 : 256  "columns of C per tile"
//@ param   STAGES     int in 2..8 = 4                    "tiles of A and B under way"
//@ param   CLUSTER    int in 1, 2, 4 = 1                 "blocks, one above the other, that share the tiles of B"
//@ param   CLUSTER_N  int in 1, 2, 4 = 1                 "blocks side by side that share the tiles of A"
//@ param   SPLIT      int in 1, 2, 4, 8 = 1              "blocks that share the steps of k of a tile"
//@ param   PINGPONG   bool = false                       "two warpgroups multiply for a tile each, in turn; else for one together"
//@ param   BLOCKS     int in 1, 2 = 1                    "blocks per multiprocessor"
//@ param   GROUP      int in 1, 2, 4, 8, 16, 32 = 8      "rows of tiles of C, counted in clusters, that are worked through column by column"
//@ param   TMA_STORE  bool = true                        "C leaves through shared memory and TMA; else straight from registers"
//@ let     CONSUMERS   = PINGPONG ? 2 : BM == 64 ? 1 : BM == 192 ? 3 : 2  "warpgroups that multiply"
//@ let     READERS     = PINGPONG ? 1 : CONSUMERS     "of them, that read the same stage"
//@ let     THREADS     = 128 * (1 + CONSUMERS)
//@ let     STAGE_BYTES = (BM + BN) * 128              "a tile of A and one of B"
//@ let     STORE_BYTES = TMA_STORE ? CONSUMERS * 16384 : 0  "what TMA stores C from: two boxes of 2 KiB per warp"
//@ let     START_REGISTERS    = 65536 / THREADS / 8 * 8   "per thread, before the producer gives most of its own away"
//@ let     PRODUCER_REGISTERS = CONSUMERS == 3 || BM * BN > 128 * 128 * READERS ? 24 : 40
//@ let     CONSUMER_REGISTERS = min(((CONSUMERS + 1) * START_REGISTERS - PRODUCER_REGISTERS) / CONSUMERS / 8 * 8, 240)
//@ require BM * BN <= (BM == 192 ? 192 * 192 : 128 * 256)   "a thread has registers for 128 x 256 results per block, or 192 x 192 with 3 warpgroups"
//@ require !PINGPONG || BM * BN <= 128 * 192   "a thread has registers for 128 x 192 results per warpgroup"
//@ require !PINGPONG || BM <= 128 && SPLIT == 1   "a warpgroup on its own takes 64 or 128 rows, and all of k"
//@ require BLOCKS == 1 || !PINGPONG && (BM == 64 && BN <= 192 || BM == 128 && BN == 64)   "two blocks have registers for 64 x 192 or 128 x 64 results each"
//@ require CLUSTER * CLUSTER_N <= 4   "a cluster of more than 4 blocks leaves multiprocessors idle"
//@ require SPLIT == 1 || CLUSTER * CLUSTER_N == 1   "a cluster shares operands or the steps of k"
//@ require SPLIT == 1 || !TMA_STORE   "what is added up out of several blocks leaves from registers: TMA_STORE=false"
//@ require SPLIT == 1 || BM * BN * 4 <= STAGES * STAGE_BYTES   "the sums of a tile have to fit the ring: use more STAGES"
//@ size    m = 4096 test 131  "rows of A and C"
//@ size    n = 4096 test 264 multiple 8  "columns of B and C"
//@ size    k = 4096 test 136 multiple 8  "columns of A and rows of B"
//@ input   a [m, k]
//@ input   b [k, n]
//@ output  c [m, n] by gemm_reference exact
//@ tensormap a_map = a [m, k] box [BM / CLUSTER_N, 64] swizzle 128
//@ tensormap b_map = b [k, n] box [64 / CLUSTER, 64] swizzle 128
//@ tensormap c_map = c [m, n] box [16, 32] swizzle 128
//@ flops   2 * m * n * k
//@ naive   gemm_naive
//@ block   THREADS
//@ cluster CLUSTER * CLUSTER_N * SPLIT
//@ grid    SPLIT > 1 ? ceil_div(m, BM) * ceil_div(n, BN) * SPLIT : min(ceil_div(m, BM * CLUSTER) * ceil_div(n, BN * CLUSTER_N), max(device.multiprocessors * BLOCKS / (CLUSTER * CLUSTER_N), 1)) * CLUSTER * CLUSTER_N
//@ shared  STAGES * STAGE_BYTES + STORE_BYTES + STAGES * 16
//@ backend cuda, host
//@ arch    sm_90a
//@ model   engine wgmma
//@ model   tile BM, BN of m, n, k
//@ model   stages STAGES
//@ model   cluster CLUSTER, CLUSTER_N
//@ model   blocks BLOCKS
//@ model   pingpong PINGPONG
//@ model   search [BM, BN, STAGES], [BN, STAGES, PINGPONG], [STAGES, BLOCKS], [BN, STAGES, CLUSTER], [CLUSTER_N], [SPLIT]
//@ model   search host [BM, BN]
#include "kiln/gemm_wgmma.h"

constexpr int kDepth = 64;  // of k per tile: what a row of 128 bytes holds
constexpr int kRowBytes = 128;
constexpr int kTileBytesA = BM * kRowBytes;
constexpr int kTileBytesB = BN * kRowBytes;
static_assert(kTileBytesA + kTileBytesB == STAGE_BYTES && kiln::kStoreBoxBytes == 2048);
constexpr int kSliceBytesB = kDepth * kRowBytes;  // 64 columns of a tile of B
constexpr int kPartRowsA = BM / CLUSTER_N;        // of a tile that one block loads
constexpr int kPartRowsB = kDepth / CLUSTER;
constexpr int kSums = BM / READERS / 64;         // of 64 rows, per warpgroup
constexpr unsigned kDown = kiln::kHasClusters ? CLUSTER : 1;
constexpr unsigned kRight = kiln::kHasClusters ? CLUSTER_N : 1;
constexpr unsigned kSplit = kiln::kHasClusters ? SPLIT : 1;
constexpr unsigned kSharers = kDown * kRight;  // blocks that write to each other's rings
constexpr unsigned kBlocksBelow = (1u << kDown) - 1;
constexpr unsigned kBlocksBeside = kRight == 1 ? 1 : kRight == 2 ? 1 | 1 << kDown : 0xf;

// One warpgroup, or one of two blocks, does with what its threads begin with.
constexpr bool kMovesRegisters = CONSUMERS > 1 && BLOCKS == 1;

using Turn = kiln::RingTurn<STAGES>;
using Tiles = kiln::ClusterTiles<BM, BN, kDown, kRight, kSplit, GROUP>;
using Sums = kiln::WgmmaSums<BN>;

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

// Steps of k.
struct Steps {
    unsigned first, count;
};

// By one thread.
__device__ __forceinline__ void produce(const Shared& shared, Tiles tiles, Steps steps,
                                        const kiln::TensorMap& a_map, const kiln::TensorMap& b_map) {
    const unsigned rank_down = kSharers == 1 ? 0 : kiln::cluster_rank() % kDown;
    const unsigned rank_right = kSharers == 1 ? 0 : kiln::cluster_rank() / kDown;
    Turn turn;
    while (tiles.advance()) {
        int depth = static_cast<int>(steps.first * kDepth);
        for (unsigned step = 0; step < steps.count; ++step, depth += kDepth) {
            kiln::Barrier* const full = &shared.full[turn.stage];
            kiln::barrier_wait(&shared.empty[turn.stage], turn.parity ^ 1u);
            kiln::barrier_expect(full, STAGE_BYTES);
#pragma unroll
            for (unsigned part = rank_right; part < CLUSTER_N; part += kRight) {
                unsigned char* const to = shared.a(turn.stage) + part * kPartRowsA * kRowBytes;
                const int row = static_cast<int>(tiles.row + part * kPartRowsA);
                if constexpr (kRight > 1)
                    kiln::tma_load_multicast(to, a_map, full, kBlocksBeside << rank_down, row, depth);
                else
                    kiln::tma_load(to, a_map, full, row, depth);
            }
#pragma unroll
            for (unsigned part = rank_down; part < CLUSTER; part += kDown) {
#pragma unroll
                for (int column = 0; column < BN; column += 64) {
                    unsigned char* const to =
                        shared.b(turn.stage) + column * kRowBytes + part * kPartRowsB * kRowBytes;
                    const int from_row = depth + static_cast<int>(part * kPartRowsB);
                    const int from_column = static_cast<int>(tiles.column + column);
                    if constexpr (kDown > 1)
                        kiln::tma_load_multicast(to, b_map, full, kBlocksBelow << rank_right * kDown,
                                                 from_row, from_column);
                    else
                        kiln::tma_load(to, b_map, full, from_row, from_column);
                }
            }
            turn.advance();
        }
    }
    // Other blocks of the cluster arrive at this one's barriers; it may not end before they have.
    if constexpr (kSharers > 1) {
        for (int stage = 0; stage < STAGES; ++stage, turn.advance())
            kiln::barrier_wait(&shared.empty[turn.stage], turn.parity ^ 1u);
    }
}

// By the warpgroup `consumer`.
__device__ __forceinline__ void consume(const Shared& shared, Tiles tiles, Steps steps, unsigned consumer,
                                        float* c, int m, int n, const kiln::TensorMap& c_map) {
    const unsigned warp = threadIdx.x / 32 % 4;
    const unsigned lane = threadIdx.x % 32;
    const unsigned part = PINGPONG ? 0 : consumer;  // of the tile's rows
    // What this warp has read of a stage may be overwritten, here and, as tiles go to others as well, from
    // any block of the cluster.
    const auto release = [&](unsigned stage) {
        if (lane < kSharers) {
            if constexpr (kSharers > 1)
                kiln::barrier_arrive_at(&shared.empty[stage], lane);
            else
                kiln::barrier_arrive(&shared.empty[stage]);
        }
    };
    unsigned char* const staging = shared.stores + (consumer * 4 + warp) * 2 * kiln::kStoreBoxBytes;
    kiln::TmaStores stores;
    unsigned box = 0;
    Turn turn;
    Sums sums[kSums];
    unsigned turn_to_multiply = 0;
    if (PINGPONG && consumer == 1) kiln::named_barrier_arrive(2, 256);
    while (tiles.advance()) {
        if (PINGPONG && turn_to_multiply++ % 2 != consumer) {
            turn.skip(steps.count);
            continue;
        }
        // A barrier tells apart two phases in a row only, so a warpgroup begins when the other has waited for
        // all of its stages; by then its last matrix instructions still run.
        if (PINGPONG) kiln::named_barrier_sync(2 + consumer, 256);
        unsigned last_stage = 0;
        for (unsigned step = 0; step < steps.count; ++step) {
            kiln::barrier_wait(&shared.full[turn.stage], turn.parity);
            kiln::multiply_stage<T>(sums, shared.a(turn.stage) + part * kSums * 64 * kRowBytes,
                                    shared.b(turn.stage), kSliceBytesB, step != 0);
            // The next stage is multiplied while this group goes on; only the one before has to end.
            kiln::wgmma_wait<1>(sums);
            if (step != 0) release(last_stage);
            last_stage = turn.stage;
            turn.advance();
        }
        if (PINGPONG) kiln::named_barrier_arrive(2 + (consumer ^ 1), 256);
        kiln::wgmma_wait<0>(sums);
        if (kSplit > 1) {
            // Nobody reads the ring any more once all are here, and nothing more comes into it.
            kiln::named_barrier_sync(1, CONSUMERS * 128);
#pragma unroll
            for (int i = 0; i < kSums; ++i) {
#pragma unroll
                for (int j = 0; j < BN / 2; ++j)
                    if (steps.count == 0) sums[i].values[j] = 0;
                kiln::share_sums<CONSUMERS * 128>(
                    sums[i],
                    reinterpret_cast<kiln::Vec<float, 4>*>(shared.tiles) + i * (BN / 8) * CONSUMERS * 128,
                    threadIdx.x - 128);
            }
            return;
        }
        release(last_stage);
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
            const unsigned row = tiles.row + ((part * kSums + i) * 4 + warp) * 16;
            if constexpr (TMA_STORE)
                kiln::store_sums_by_tma(sums[i], c_map, stores, staging, box, row, tiles.column, lane);
            else
                kiln::store_sums(sums[i], c, m, n, row, tiles.column, lane);
        }
    }
    if (TMA_STORE && lane == 0) stores.wait_read<0>();
}

// After the blocks of the cluster have left their sums of the tile: the rank's part of the columns.
__device__ __forceinline__ void add_up(const Shared& shared, Tiles tiles, unsigned consumer, float* c, int m,
                                       int n) {
    const unsigned warp = threadIdx.x / 32 % 4;
    const unsigned lane = threadIdx.x % 32;
    if (!tiles.advance()) return;
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
        kiln::store_shared_sums<static_cast<int>(kSplit), CONSUMERS * 128, BN>(
            reinterpret_cast<const kiln::Vec<float, 4>*>(shared.tiles) + i * (BN / 8) * CONSUMERS * 128,
            threadIdx.x - 128, kiln::cluster_rank(), c, m, n,
            tiles.row + ((consumer * kSums + i) * 4 + warp) * 16, tiles.column, lane);
    }
}

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void gemm_wgmma(
    int m, int n, int k, const T* a, const T* b, float* c, const __grid_constant__ kiln::TensorMap a_map,
    const __grid_constant__ kiln::TensorMap b_map, const __grid_constant__ kiln::TensorMap c_map) {
    if (k == 0) return kiln::store_zeros(c, m, n);
    Shared shared;
    shared.tiles = kiln::dynamic_shared<unsigned char>();
    shared.stores = shared.tiles + STAGES * STAGE_BYTES;
    shared.full = reinterpret_cast<kiln::Barrier*>(shared.stores + STORE_BYTES);
    shared.empty = shared.full + STAGES;
    static_cast<void>(a);
    static_cast<void>(b);

    if (threadIdx.x == 0) {
        kiln::tma_prefetch(a_map);
        kiln::tma_prefetch(b_map);
        if (TMA_STORE) kiln::tma_prefetch(c_map);
        for (int stage = 0; stage < STAGES; ++stage) {
            kiln::barrier_init(&shared.full[stage], 1);
            kiln::barrier_init(&shared.empty[stage], READERS * 4 * kSharers);
        }
        kiln::barrier_init_fence();
    }
    if constexpr (kSharers > 1)
        kiln::cluster_meet();
    else
        __syncthreads();

    const Tiles tiles(m, n);
    Steps steps = {0, (static_cast<unsigned>(k) + kDepth - 1) / kDepth};
    if constexpr (kSplit > 1) {
        const unsigned rank = kiln::cluster_rank();
        steps = {steps.count * rank / kSplit, steps.count * (rank + 1) / kSplit};
        steps.count -= steps.first;
    }
    // The same for all lanes, which the compiler can't tell from threadIdx.
    const unsigned group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    if (group == 0) {
        if constexpr (kMovesRegisters) kiln::release_registers<PRODUCER_REGISTERS>();
        if (threadIdx.x < 32 && kiln::elect_one()) produce(shared, tiles, steps, a_map, b_map);
        if constexpr (kSplit > 1) kiln::cluster_sync();
    } else {
        if constexpr (kMovesRegisters) kiln::claim_registers<CONSUMER_REGISTERS>();
        consume(shared, tiles, steps, group - 1, c, m, n, c_map);
        if constexpr (kSplit > 1) {
            kiln::cluster_sync();
            add_up(shared, tiles, group - 1, c, m, n);
        }
    }
    // Until all are here, blocks of the cluster read each other's sums.
    if constexpr (kSplit > 1) kiln::cluster_meet();
}
