// gemm_wgmma: C = ACTIVATION(ALPHA * A * B + BETA * residual + bias) on Hopper's tensor cores (wgmma), with tiles by TMA
//
// C is m x n; A is m x k, or k x m with TRANS_A; B is k x n, or n x k with TRANS_B; all row-major, so that a transposed
// operand is a column-major one. Sums and epilogue are FP32, rounded once to OUT. TMA takes rows that start at multiples
// of 16 bytes: rows of A and B have to be multiples of 8 elements, rows of C of 16 bytes unless B is n x k and
// TMA_STORE=false: then C leaves row by row, through shared memory, or with split-K from registers. Addresses have to be
// multiples of 16, then of A and B only; gemm_wgmma_any has no such rules.
// Blocks are persistent: each computes one tile of C after the other, in a rasterisation that keeps the tiles
// which are computed at the same time close together, so that their rows of A and columns of B are in the L2 cache.
// The first warpgroup is the producer: one of its threads starts the TMA loads of A and B. The others are consumers:
// each multiplies its rows of the tile, or with PINGPONG a tile of its own, so that one stores its results while the
// other multiplies. The full mbarrier of a stage says that its tiles have landed, the empty mbarrier that no consumer
// reads them any more.
// In a cluster, blocks one above the other share the tiles of B, and blocks side by side those of A: each loads its
// part of them, and TMA multicasts it to all. Or the blocks of a cluster share one tile of C, each with a part of k
// (SPLIT_K), for a C with fewer tiles than the device has multiprocessors. Their accumulators are added in the order of
// k, out of each other's shared memory. With SPLIT_CLUSTERS several clusters share a tile in this way; each leaves its sums
// in global memory, and the last to end adds them, in the order of k again.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_wgmma
//@ param   T             type in half, bfloat16 = half      "element type of A and B"
//@ param   BM            int in 64, 128, 192, 256 = 128     "rows of C per tile"
//@ param   BN            int in 64, 128, 192, 256 = !PINGPONG ? 256 : BIAS != 0 || RESIDUAL ? 128 : 192  "columns of C per tile"
//@ param   STAGES        int in 2..8 = 4                    "stages of the pipeline: a tile of A and one of B each"
//@ param   CLUSTER_M     int in 1, 2, 4 = 1                 "blocks, one above the other, that share the tiles of B"
//@ param   CLUSTER_N     int in 1, 2, 4 = 1                 "blocks side by side that share the tiles of A"
//@ param   SPLIT_K       int in 1, 2, 4, 8 = 1              "split-K: blocks of a cluster that share the steps of k of a tile"
//@ param   SPLIT_CLUSTERS int in 1, 2, 4, 8, 16 = 1         "split-K: clusters that share the steps of k of a tile"
//@ param   PINGPONG      bool = false                       "two consumer warpgroups compute a tile each, alternately; else one tile together"
//@ param   BLOCKS_PER_SM int in 1, 2 = 1                    "blocks per multiprocessor"
//@ param   RASTER_GROUP  int in 1, 2, 4, 8, 16, 32 = 8      "rasterisation: rows of tiles of C, counted in clusters, that are computed column by column"
//@ param   TMA_STORE     bool = true                        "C is stored by TMA, through shared memory; else row by row, or from registers"
//@ param   OUT           type in float, half, bfloat16 = float  "element type of C, bias and residual"
//@ param   TRANS_A       bool = false                       "A is stored k x m"
//@ param   TRANS_B       bool = false                       "B is stored n x k"
//@ param   ALPHA         float = 1                          "factor of the product"
//@ param   BIAS          int in 0, 1, 2 = 0                 "0 none, 1: bias[j] is added to column j, 2: bias[i] to row i"
//@ param   RESIDUAL      bool = false                       "BETA * residual is added"
//@ param   BETA          float = 1                          "factor of residual"
//@ param   ACTIVATION    int in 0, 1, 2, 3 = 0              "0 none, 1 relu, 2 gelu, 3 silu"
//@ let     CONSUMERS   = PINGPONG ? 2 : BM == 64 ? 1 : BM == 192 ? 3 : 2  "warpgroups that multiply"
//@ let     READERS     = PINGPONG ? 1 : CONSUMERS     "of them, that read the same stage"
//@ let     THREADS     = 128 * (1 + CONSUMERS)
//@ let     STAGE_BYTES = (BM + BN) * 128              "a tile of A and one of B"
//@ let     PAIRS = !TRANS_B || TMA_STORE              "rows of C have an even number of elements"
//@ let     ROW_STORE = !PAIRS && SPLIT_K * SPLIT_CLUSTERS == 1  "C is stored row by row, through shared memory"
//@ let     STORE_BYTES = CONSUMERS * (TMA_STORE ? 16384 : ROW_STORE ? 8192 : 0)  "what C leaves through: two boxes of 2 KiB per warp by TMA, one by rows"
//@ let     START_REGISTERS    = 65536 / THREADS / 8 * 8   "per thread, before the producer gives most of its own away"
//@ let     PRODUCER_REGISTERS = CONSUMERS == 3 || BM * BN > 128 * 128 * READERS ? 24 : 40
//@ let     CONSUMER_REGISTERS = min(((CONSUMERS + 1) * START_REGISTERS - PRODUCER_REGISTERS) / CONSUMERS / 8 * 8, 240)
//@ require BM * BN <= (BM == 192 ? 192 * 192 : 128 * 256)   "a thread has registers for 128 x 256 results per block, or 192 x 192 with 3 warpgroups"
//@ require !PINGPONG || BM * BN <= 128 * 192   "a thread has registers for 128 x 192 results per warpgroup"
//@ require !PINGPONG || BM * BN <= 128 * 128 || BIAS == 0 && !RESIDUAL   "a thread has registers for 128 x 128 results per warpgroup and the operands of an epilogue"
//@ require !PINGPONG || BM <= 128 && SPLIT_K * SPLIT_CLUSTERS == 1   "a warpgroup on its own takes 64 or 128 rows, and all of k"
//@ require BLOCKS_PER_SM == 1 || !PINGPONG && (BM == 64 && BN <= 192 || BM == 128 && BN == 64)   "two blocks have registers for 64 x 192 or 128 x 64 results each"
//@ require BLOCKS_PER_SM == 1 || !TMA_STORE || sizeof(OUT) == 4 && (BN <= 128 || !RESIDUAL) || sizeof(OUT) == 2 && BN <= 128 && (BM == 64 || BIAS == 0 || !RESIDUAL)   "two blocks have no registers for this epilogue and a store by TMA: use TMA_STORE=false or a smaller tile"
//@ require BLOCKS_PER_SM == 1 || !ROW_STORE || BN <= 128   "two blocks have no registers for so many columns and a store by rows: use a smaller BN"
//@ require CLUSTER_M * CLUSTER_N <= 4   "a cluster of more than 4 blocks leaves multiprocessors idle"
//@ require SPLIT_K * SPLIT_CLUSTERS == 1 || CLUSTER_M * CLUSTER_N == 1   "a cluster shares operands or the steps of k"
//@ require SPLIT_K * SPLIT_CLUSTERS == 1 || !TMA_STORE   "split-K stores C from registers: TMA_STORE=false"
//@ require SPLIT_K * SPLIT_CLUSTERS == 1 || BM * BN * 4 <= STAGES * STAGE_BYTES   "the accumulators of a tile have to fit the stages: use more STAGES"
//@ size    m = 4096 test TRANS_A ? 136 : 131 multiple TRANS_A ? 8 : 1  "rows of A and C"
//@ size    n = 4096 test PAIRS ? 264 : 265 multiple TRANS_B ? (TMA_STORE ? 16 / sizeof(OUT) : 1) : 8  "columns of B and C"
//@ size    k = 4096 test TRANS_A && !TRANS_B ? 139 : 136 multiple TRANS_A && !TRANS_B ? 1 : 8 at_most 2147483584  "columns of A and rows of B"
//@ input   a [TRANS_A ? k : m, TRANS_A ? m : k]
//@ input   b [TRANS_B ? n : k, TRANS_B ? k : n]
//@ output  c [m, n] align PAIRS ? 2 * sizeof(OUT) : sizeof(OUT) by gemm_epilogue_reference
//@ input   bias [BIAS == 2 ? m : n] align PAIRS && BIAS == 1 ? 2 * sizeof(OUT) : sizeof(OUT) if BIAS != 0
//@ input   residual [m, n] align PAIRS ? 2 * sizeof(OUT) : sizeof(OUT) if RESIDUAL
//@ scratch partial [SPLIT_CLUSTERS, ceil_div(m, BM) * ceil_div(n, BN), BM * BN] align 16 if SPLIT_CLUSTERS > 1
//@ scratch tickets [ceil_div(m, BM) * ceil_div(n, BN), SPLIT_K] = 0 if SPLIT_CLUSTERS > 1
//@ tensormap a_map = a [TRANS_A ? k : m, TRANS_A ? m : k] box [(TRANS_A ? 64 : BM) / CLUSTER_N, 64] swizzle 128
//@ tensormap b_map = b [TRANS_B ? n : k, TRANS_B ? k : n] box [(TRANS_B ? BN : 64) / CLUSTER_M, 64] swizzle 128
//@ tensormap c_map = c [m, n] box [16, 128 / sizeof(OUT)] swizzle 128 if TMA_STORE
//@ flops   2 * m * n * k
//@ naive   gemm_naive
//@ block   THREADS
//@ cluster CLUSTER_M * CLUSTER_N * SPLIT_K
//@ grid    SPLIT_K * SPLIT_CLUSTERS > 1 ? ceil_div(m, BM) * ceil_div(n, BN) * SPLIT_K * SPLIT_CLUSTERS : min(ceil_div(m, BM * CLUSTER_M) * ceil_div(n, BN * CLUSTER_N), max(device.multiprocessors * BLOCKS_PER_SM / (CLUSTER_M * CLUSTER_N), 1)) * CLUSTER_M * CLUSTER_N
//@ shared  STAGES * STAGE_BYTES + STORE_BYTES + STAGES * 16 + (SPLIT_CLUSTERS > 1 ? 16 : 0)
//@ backend cuda, host
//@ arch    sm_90a
//@ model   engine wgmma
//@ model   tile BM, BN of m, n, k
//@ model   stages STAGES
//@ model   cluster CLUSTER_M, CLUSTER_N
//@ model   blocks BLOCKS_PER_SM
//@ model   pingpong PINGPONG
//@ model   staged_store TMA_STORE || ROW_STORE
//@ model   search [BM, BN, STAGES], [BN, STAGES, PINGPONG], [STAGES, BLOCKS_PER_SM], [BN, STAGES, CLUSTER_M], [CLUSTER_N], [SPLIT_K, SPLIT_CLUSTERS, TMA_STORE]
//@ model   search host [BM, BN]
#include "kiln/wgmma_split.h"

constexpr int kDepth = 64;  // of k per tile: what a row of 128 bytes holds
constexpr int kRowBytes = 128;
constexpr int kTileBytesA = BM * kRowBytes;
constexpr int kTileBytesB = BN * kRowBytes;
static_assert(kTileBytesA + kTileBytesB == STAGE_BYTES && kiln::kStoreBoxBytes == 2048);
constexpr int kAccumulators = BM / READERS / 64;  // of 64 rows each, per warpgroup
constexpr unsigned kDown = kiln::kHasClusters ? CLUSTER_M : 1;
constexpr unsigned kRight = kiln::kHasClusters ? CLUSTER_N : 1;
constexpr unsigned kSharers = kDown * kRight;  // blocks that fill each other's stages
constexpr unsigned kBlocksBelow = (1u << kDown) - 1;
constexpr unsigned kBlocksBeside = kRight == 1 ? 1 : kRight == 2 ? 1 | 1 << kDown : 0xf;

// One warpgroup, or one of two blocks, does with what its threads begin with.
constexpr bool kMovesRegisters = CONSUMERS > 1 && BLOCKS_PER_SM == 1;
// Next to the accumulators, for the operands of an epilogue.
constexpr bool kHasFewRegisters =
    (kMovesRegisters ? CONSUMER_REGISTERS : START_REGISTERS / BLOCKS_PER_SM) - kAccumulators * BN / 2 < 80;

using Pipeline = kiln::MbarrierPipeline<STAGES>;
using Split = kiln::WgmmaSplit<BM, BN, SPLIT_K, SPLIT_CLUSTERS, CONSUMERS>;
using Tiles = kiln::ClusterTiles<BM, BN, kDown, kRight, Split::kBlocks, RASTER_GROUP>;
using Accumulator = kiln::WgmmaAccumulator<BN>;
using Epilogue = kiln::GemmEpilogue<OUT, ALPHA != 1.0f, BIAS, RESIDUAL, ACTIVATION>;

struct Shared {
    unsigned char* tiles;
    unsigned char* stores;
    Pipeline pipeline;

    __device__ __forceinline__ unsigned char* a(unsigned stage) const { return tiles + stage * STAGE_BYTES; }
    __device__ __forceinline__ unsigned char* b(unsigned stage) const { return a(stage) + kTileBytesA; }
};

// Loads this block's parts of a tile of EXTENT rows of A or columns of B from `first` on, by load(to, row, column): whole
// rows of 128 bytes, of which PARTS blocks of a cluster, or on the host this one, load as many each.
template <bool MN_MAJOR, int EXTENT, unsigned PARTS, unsigned SHARERS, class Tile, class Load>
__device__ __forceinline__ void load_tile(const Tile& tile, unsigned rank, unsigned first, int depth,
                                          const Load& load) {
    constexpr int kRows = (MN_MAJOR ? kDepth : EXTENT) / static_cast<int>(PARTS);
#pragma unroll
    for (unsigned part = rank; part < PARTS; part += SHARERS) {
#pragma unroll
        for (int slice = 0; slice < (MN_MAJOR ? EXTENT : 64); slice += 64) {
            unsigned char* const to = tile() + slice * kRowBytes + part * kRows * kRowBytes;
            if constexpr (MN_MAJOR)
                load(to, depth + static_cast<int>(part * kRows), static_cast<int>(first + slice));
            else
                load(to, static_cast<int>(first + part * kRows), depth);
        }
    }
}

// By one thread.
__device__ __forceinline__ void produce(const Shared& shared, Tiles tiles, kiln::StepRange steps,
                                        const kiln::TensorMap& a_map, const kiln::TensorMap& b_map) {
    const unsigned rank_down = kSharers == 1 ? 0 : kiln::cluster_rank() % kDown;
    const unsigned rank_right = kSharers == 1 ? 0 : kiln::cluster_rank() / kDown;
    Pipeline::State state;
    while (tiles.advance()) {
        int depth = static_cast<int>(steps.first * kDepth);
        for (unsigned step = 0; step < steps.count; ++step, depth += kDepth) {
            kiln::Barrier* const full = &shared.pipeline.full[state.index];
            shared.pipeline.producer_acquire(state);
            kiln::barrier_arrive_and_expect_tx(full, STAGE_BYTES);
            load_tile<TRANS_A, BM, CLUSTER_N, kRight>(
                [&] { return shared.a(state.index); }, rank_right, tiles.row, depth,
                [&](unsigned char* to, int row, int column) {
                    if constexpr (kRight > 1)
                        kiln::tma_load_multicast(to, a_map, full, kBlocksBeside << rank_down, row, column);
                    else
                        kiln::tma_load(to, a_map, full, row, column);
                });
            load_tile<!TRANS_B, BN, CLUSTER_M, kDown>(
                [&] { return shared.b(state.index); }, rank_down, tiles.column, depth,
                [&](unsigned char* to, int row, int column) {
                    if constexpr (kDown > 1)
                        kiln::tma_load_multicast(to, b_map, full, kBlocksBelow << rank_right * kDown, row,
                                                 column);
                    else
                        kiln::tma_load(to, b_map, full, row, column);
                });
            state.advance();
        }
    }
    // Other blocks of the cluster arrive at this block's mbarriers; it must not exit before they have.
    if constexpr (kSharers > 1) {
        for (int stage = 0; stage < STAGES; ++stage, state.advance()) shared.pipeline.producer_acquire(state);
    }
}

// By the warpgroup `consumer`.
__device__ __forceinline__ void consume(const Shared& shared, Tiles tiles, kiln::StepRange steps,
                                        unsigned consumer, const Split& split, OUT* c, int m,
                                        const Epilogue& epilogue, const kiln::TensorMap& c_map) {
    const unsigned warp = threadIdx.x / 32 % 4;
    const unsigned lane = threadIdx.x % 32;
    const unsigned part = PINGPONG ? 0 : consumer;  // of the tile's rows
    const auto release = [&](unsigned stage) { shared.pipeline.consumer_release<kSharers>(stage, lane); };
    unsigned char* const staging =
        shared.stores + (consumer * 4 + warp) * (TMA_STORE ? 2 : 1) * kiln::kStoreBoxBytes;
    kiln::TmaStores stores;
    unsigned box = 0;
    Pipeline::State state;
    Accumulator accumulators[kAccumulators];
    unsigned turn_to_multiply = 0;
    if (PINGPONG && consumer == 1) kiln::named_barrier_arrive(2, 256);
    while (tiles.advance()) {
        if (PINGPONG && turn_to_multiply++ % 2 != consumer) {
            state.advance(steps.count);
            continue;
        }
        // A wait can tell apart only two consecutive phases of an mbarrier. So a warpgroup begins when the other has
        // waited for all of its stages; the last wgmma of that one are then still running.
        if (PINGPONG) kiln::named_barrier_sync(2 + consumer, 256);
#pragma unroll
        for (int i = 0; i < kAccumulators; ++i)
            kiln::prefetch_residual<BN>(epilogue, m, tiles.row + ((part * kAccumulators + i) * 4 + warp) * 16,
                                        tiles.column, lane);
#pragma unroll
        for (int i = 0; i < kAccumulators; ++i) kiln::wgmma_define(accumulators[i]);
        unsigned last_stage = 0;
        for (unsigned step = 0; step < steps.count; ++step) {
            shared.pipeline.consumer_wait(state);
            kiln::multiply_stage<T, TRANS_A, !TRANS_B>(
                accumulators, shared.a(state.index) + part * kAccumulators * 64 * kRowBytes,
                shared.b(state.index), step != 0);
            // The wgmma of this stage run on while those of the next are issued; only those of the last have to end.
            kiln::wgmma_wait<1>(accumulators);
            if (step != 0) release(last_stage);
            last_stage = state.index;
            state.advance();
        }
        if (PINGPONG) kiln::named_barrier_arrive(2 + (consumer ^ 1), 256);
        kiln::wgmma_wait<0>(accumulators);
        if constexpr (Split::kShares) {
            split.share(accumulators, steps.count == 0, shared.tiles, threadIdx.x - 128);
            return;
        }
        release(last_stage);
#pragma unroll
        for (int i = 0; i < kAccumulators; ++i) {
            const unsigned row = tiles.row + ((part * kAccumulators + i) * 4 + warp) * 16;
            if constexpr (TMA_STORE)
                kiln::store_accumulators_by_tma<kHasFewRegisters, OUT>(
                    accumulators[i], c_map, stores, staging, box, m, epilogue, row, tiles.column, lane);
            else if constexpr (ROW_STORE)
                kiln::store_accumulators_by_rows(accumulators[i], staging, c, m, epilogue, row,
                                                 tiles.column, lane);
            else
                kiln::store_accumulators<PAIRS>(accumulators[i], c, m, epilogue, row, tiles.column, lane);
        }
    }
    if (TMA_STORE && lane == 0) stores.wait_read<0>();
}

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS_PER_SM) void gemm_wgmma(
    int m, int n, int k, const T* a, const T* b, OUT* c, const OUT* bias, const OUT* residual, float* partial,
    unsigned* tickets, const __grid_constant__ kiln::TensorMap a_map,
    const __grid_constant__ kiln::TensorMap b_map, const __grid_constant__ kiln::TensorMap c_map) {
    const Epilogue epilogue = {ALPHA, BETA, bias, residual, n};
    if (k == 0) return kiln::store_empty_sums(c, m, n, epilogue);
    Shared shared;
    shared.tiles = kiln::dynamic_shared<unsigned char>();
    shared.stores = shared.tiles + STAGES * STAGE_BYTES;
    auto* const mbarriers = reinterpret_cast<kiln::Barrier*>(shared.stores + STORE_BYTES);
    shared.pipeline = {mbarriers, mbarriers + STAGES};
    static_cast<void>(a);
    static_cast<void>(b);

    if (threadIdx.x == 0) {
        kiln::tma_prefetch(a_map);
        kiln::tma_prefetch(b_map);
        if (TMA_STORE) kiln::tma_prefetch(c_map);
        for (int stage = 0; stage < STAGES; ++stage)
            shared.pipeline.init_stage(stage, 1, READERS * 4 * kSharers);
        kiln::barrier_init_fence();
    }
    if constexpr (kSharers > 1)
        kiln::cluster_sync_relaxed();
    else
        __syncthreads();

    const Tiles all_tiles(m, n);
    Split split;
    if (!split.start(all_tiles, partial, tickets, mbarriers + 2 * STAGES)) return;
    const kiln::StepRange steps = split.part_of((static_cast<unsigned>(k) + kDepth - 1) / kDepth);
    // Equal in all lanes of a warp, which the compiler cannot know of threadIdx.
    const unsigned group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    if (group == 0) {
        if constexpr (kMovesRegisters) kiln::setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x < 32 && kiln::elect_one())
            produce(shared, split.tiles_of(all_tiles), steps, a_map, b_map);
        if constexpr (Split::kBlocks > 1) kiln::cluster_sync();
    } else {
        if constexpr (kMovesRegisters) kiln::setmaxnreg_inc<CONSUMER_REGISTERS>();
        consume(shared, split.tiles_of(all_tiles), steps, group - 1, split, c, m, epilogue, c_map);
        if constexpr (Split::kBlocks > 1) kiln::cluster_sync();
        if constexpr (Split::kShares)
            split.reduce<PAIRS>(shared.tiles, split.tiles_of(all_tiles), group - 1, threadIdx.x - 128, c, m,
                                epilogue);
    }
    // The blocks of the cluster read each other's shared memory until here.
    if constexpr (Split::kBlocks > 1) kiln::cluster_sync_relaxed();
}
