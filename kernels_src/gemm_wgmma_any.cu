// gemm_wgmma_any: gemm_wgmma for rows of any length and any addresses
//
// C is m x n; A is m x k, or k x m with TRANS_A; B is k x n, or n x k with TRANS_B; all row-major. gemm_wgmma is the
// faster one where rows are multiples of 8 elements; TMA takes no other rows. Here two warpgroups, the producers, take
// every other step of k each, by plain loads that they shift into place (kiln/any_tile.h), and the others multiply as
// gemm_wgmma's do.
// Blocks are persistent: each computes one tile of C after the other, in a rasterisation that keeps the tiles which are
// computed at the same time close together. The full mbarrier of a stage says that it has been written, the empty
// mbarrier that no consumer reads it any more.
// Where C has fewer tiles than the device has multiprocessors, blocks share the steps of k of a tile: SPLIT_K of a cluster,
// in SPLIT_CLUSTERS clusters (kiln/wgmma_split.h).
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_wgmma_any
//@ param   T            type in half, bfloat16 = half   "element type of A and B"
//@ param   BM           int in 64, 128 = 128            "rows of C per tile"
//@ param   BN           int in 64, 128, 192, 256 = 128  "columns of C per tile"
//@ param   STAGES       int in 2..8 = 4                 "stages of the pipeline: a tile of A and one of B each"
//@ param   SPLIT_K      int in 1, 2, 4, 8 = 1           "split-K: blocks of a cluster that share the steps of k of a tile"
//@ param   SPLIT_CLUSTERS int in 1, 2, 3, 4, 6, 8, 12, 16 = 1 "split-K: clusters that share the steps of k of a tile"
//@ param   RASTER_GROUP int in 1, 4, 8, 16 = 8          "rasterisation: rows of tiles of C that are computed column by column"
//@ param   OUT          type in float, half, bfloat16 = float "element type of C, bias and residual"
//@ param   TRANS_A      bool = false                       "A is stored k x m"
//@ param   TRANS_B      bool = false                       "B is stored n x k"
//@ param   ALPHA        float = 1                          "factor of the product"
//@ param   BIAS         int in 0, 1, 2 = 0                 "0 none, 1: bias[j] is added to column j, 2: bias[i] to row i"
//@ param   RESIDUAL     bool = false                       "BETA * residual is added"
//@ param   BETA         float = 1                          "factor of residual"
//@ param   ACTIVATION   int in 0, 1, 2, 3 = 0              "0 none, 1 relu, 2 gelu, 3 silu"
//@ let     PRODUCERS   = 2                  "warpgroups that copy"
//@ let     CONSUMERS   = BM / 64            "warpgroups that multiply"
//@ let     THREADS     = 128 * (PRODUCERS + CONSUMERS)
//@ let     STAGE_BYTES = (BM + BN) * 128    "a tile of A and one of B"
//@ let     STORE_BYTES = CONSUMERS * 8192   "a box of 2 KiB per warp, through which C leaves"
//@ require BM * BN <= 128 * 128   "with the warps that load, 512 threads have registers for 128 x 128 results"
//@ require SPLIT_K * SPLIT_CLUSTERS == 1 || BM * BN * 4 <= STAGES * STAGE_BYTES   "the accumulators of a tile have to fit the stages: use more STAGES"
//@ size    m = 4096 test 131  "rows of A and C"
//@ size    n = 4096 test 265  "columns of B and C"
//@ size    k = 4096 test 139 at_most 2147483584  "columns of A and rows of B"
//@ input   a [TRANS_A ? k : m, TRANS_A ? m : k]
//@ input   b [TRANS_B ? n : k, TRANS_B ? k : n]
//@ output  c [m, n] by gemm_epilogue_reference
//@ input   bias [BIAS == 2 ? m : n] if BIAS != 0
//@ input   residual [m, n] if RESIDUAL
//@ scratch partial [SPLIT_CLUSTERS, ceil_div(m, BM) * ceil_div(n, BN), BM * BN] align 16 if SPLIT_CLUSTERS > 1
//@ scratch tickets [ceil_div(m, BM) * ceil_div(n, BN), SPLIT_K] = 0 if SPLIT_CLUSTERS > 1
//@ flops   2 * m * n * k
//@ naive   gemm_naive
//@ block   THREADS
//@ cluster SPLIT_K
//@ grid    SPLIT_K * SPLIT_CLUSTERS > 1 ? ceil_div(m, BM) * ceil_div(n, BN) * SPLIT_K * SPLIT_CLUSTERS : min(ceil_div(m, BM) * ceil_div(n, BN), max(device.multiprocessors, 1))
//@ shared  STAGES * STAGE_BYTES + STORE_BYTES + STAGES * 16 + (SPLIT_CLUSTERS > 1 ? 16 : 0)
//@ backend cuda, host
//@ arch    sm_90a
//@ model   engine wgmma
//@ model   tile BM, BN of m, n, k
//@ model   stages STAGES
//@ model   copies registers
//@ model   search [BM, BN, STAGES], [SPLIT_K, SPLIT_CLUSTERS]
//@ model   search host [BM, BN]
#include "kiln/any_tile.h"
#include "kiln/wgmma_split.h"

constexpr int kDepth = 64;  // of k per tile: what a row of 128 bytes holds
constexpr int kRowBytes = 128;
constexpr int kTileBytesA = BM * kRowBytes;
static_assert(kTileBytesA + BN * kRowBytes == STAGE_BYTES && kiln::kStoreBoxBytes == 2048);

using Pipeline = kiln::MbarrierPipeline<STAGES>;
using Split = kiln::WgmmaSplit<BM, BN, SPLIT_K, SPLIT_CLUSTERS, CONSUMERS>;
using Tiles = kiln::ClusterTiles<BM, BN, 1, 1, Split::kBlocks, RASTER_GROUP>;
using Epilogue = kiln::GemmEpilogue<OUT, ALPHA != 1.0f, BIAS, RESIDUAL, ACTIVATION>;

struct Shared {
    unsigned char* tiles;
    unsigned char* stores;
    Pipeline pipeline;

    __device__ __forceinline__ unsigned char* a(unsigned stage) const { return tiles + stage * STAGE_BYTES; }
    __device__ __forceinline__ unsigned char* b(unsigned stage) const { return a(stage) + kTileBytesA; }
};

// By the warpgroup `producer`. It is never so far ahead of the other that the two phases of an mbarrier could be
// mistaken for each other: the consumers take the stages in their order.
__device__ __forceinline__ void produce(const Shared& shared, Tiles tiles, kiln::StepRange steps,
                                        unsigned producer, const kiln::AnyMatrix<T>& a,
                                        const kiln::AnyMatrix<T>& b) {
    const int thread = static_cast<int>(threadIdx.x % 128);
    Pipeline::State state;
    bool is_mine = producer == 0;
    while (tiles.advance()) {
        for (unsigned step = 0; step < steps.count; ++step, state.advance(), is_mine = !is_mine) {
            if (!is_mine) continue;
            shared.pipeline.producer_acquire(state);
            const kiln::i64 depth = static_cast<kiln::i64>(steps.first + step) * kDepth;
            if constexpr (TRANS_A)
                kiln::AnyTile<T, kDepth, BM, 128>::load(shared.a(state.index), a, depth, tiles.row, thread);
            else
                kiln::AnyTile<T, BM, kDepth, 128>::load(shared.a(state.index), a, tiles.row, depth, thread);
            if constexpr (TRANS_B)
                kiln::AnyTile<T, BN, kDepth, 128>::load(shared.b(state.index), b, tiles.column, depth,
                                                        thread);
            else
                kiln::AnyTile<T, kDepth, BN, 128>::load(shared.b(state.index), b, depth, tiles.column,
                                                        thread);
            kiln::fence_async_proxy();
            __syncwarp();
            if (thread % 32 == 0) kiln::barrier_arrive(&shared.pipeline.full[state.index]);
        }
    }
}

// By the warpgroup `consumer`.
__device__ __forceinline__ void consume(const Shared& shared, Tiles tiles, kiln::StepRange steps,
                                        unsigned consumer, const Split& split, OUT* c, int m,
                                        const Epilogue& epilogue) {
    const unsigned warp = threadIdx.x / 32 % 4;
    const unsigned lane = threadIdx.x % 32;
    Pipeline::State state;
    kiln::WgmmaAccumulator<BN> accumulators[1];
    while (tiles.advance()) {
        kiln::prefetch_residual<BN>(epilogue, m, tiles.row + (consumer * 4 + warp) * 16, tiles.column, lane);
        kiln::wgmma_define(accumulators[0]);
        unsigned last_stage = 0;
        for (unsigned step = 0; step < steps.count; ++step) {
            shared.pipeline.consumer_wait(state);
            kiln::multiply_stage<T, TRANS_A, !TRANS_B>(accumulators,
                                                       shared.a(state.index) + consumer * 64 * kRowBytes,
                                                       shared.b(state.index), step != 0);
            // The wgmma of this stage run on while those of the next are issued; only those of the last have to end.
            kiln::wgmma_wait<1>(accumulators);
            if (step != 0) shared.pipeline.consumer_release(last_stage, lane);
            last_stage = state.index;
            state.advance();
        }
        kiln::wgmma_wait<0>(accumulators);
        if constexpr (Split::kShares) {
            split.share(accumulators, steps.count == 0, shared.tiles, threadIdx.x - PRODUCERS * 128);
            return;
        }
        shared.pipeline.consumer_release(last_stage, lane);
        kiln::store_accumulators_by_rows(
            accumulators[0], shared.stores + (consumer * 4 + warp) * kiln::kStoreBoxBytes, c, m, epilogue,
            tiles.row + (consumer * 4 + warp) * 16, tiles.column, lane);
    }
}

extern "C" __global__ __launch_bounds__(THREADS, 1) void gemm_wgmma_any(int m, int n, int k, const T* a,
                                                                        const T* b, OUT* c, const OUT* bias,
                                                                        const OUT* residual, float* partial,
                                                                        unsigned* tickets) {
    const Epilogue epilogue = {ALPHA, BETA, bias, residual, n};
    if (k == 0) return kiln::store_empty_sums(c, m, n, epilogue);
    Shared shared;
    shared.tiles = kiln::dynamic_shared<unsigned char>();
    shared.stores = shared.tiles + STAGES * STAGE_BYTES;
    auto* const mbarriers = reinterpret_cast<kiln::Barrier*>(shared.stores + STORE_BYTES);
    shared.pipeline = {mbarriers, mbarriers + STAGES};
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) shared.pipeline.init_stage(stage, 4, CONSUMERS * 4);
        kiln::barrier_init_fence();
    }
    __syncthreads();

    const Tiles all_tiles(m, n);
    Split split;
    if (!split.start(all_tiles, partial, tickets, mbarriers + 2 * STAGES)) return;
    const kiln::StepRange steps = split.part_of((static_cast<unsigned>(k) + kDepth - 1) / kDepth);
    // Equal in all lanes of a warp, which the compiler cannot know of threadIdx.
    const unsigned group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    if (group < PRODUCERS) {
        produce(shared, split.tiles_of(all_tiles), steps, group, {a, TRANS_A ? k : m, TRANS_A ? m : k},
                {b, TRANS_B ? n : k, TRANS_B ? k : n});
        if constexpr (Split::kBlocks > 1) kiln::cluster_sync();
    } else {
        const unsigned consumer = group - PRODUCERS;
        consume(shared, split.tiles_of(all_tiles), steps, consumer, split, c, m, epilogue);
        if constexpr (Split::kBlocks > 1) kiln::cluster_sync();
        if constexpr (Split::kShares)
            split.reduce<false>(shared.tiles, split.tiles_of(all_tiles), consumer,
                                threadIdx.x - PRODUCERS * 128, c, m, epilogue);
    }
    // The blocks of the cluster read each other's shared memory until here.
    if constexpr (Split::kBlocks > 1) kiln::cluster_sync_relaxed();
}
