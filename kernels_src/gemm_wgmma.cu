// gemm_wgmma: C = A * B on Hopper's tensor cores, out of a ring of tiles in shared memory that TMA fills
//
// A is m x k, B is k x n, C is m x n, all row-major. TMA takes rows that start at multiples of 16 bytes: n
// and k have to be multiples of 8, and the addresses of a, b and c multiples of 16; gemm_tiled has no such
// rule.
// Blocks stay: each takes one tile of C after the other, in an order that keeps those which run at the
// same time in a compact part of C, whose rows of A and columns of B so stay in the L2 cache. One thread,
// the producer, starts the copies of the tiles of A and B; warpgroups 1 and 2 each multiply half of the
// rows. `full` says that a stage of the ring has landed, `empty` that nobody reads it any more. In a
// cluster, blocks one above the other share the tiles of B: each loads its part of them, and the
// accelerator writes it to all.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_wgmma
//@ param   T          type in half, bfloat16 = half      "element type of A and B; C is float"
//@ param   BM         int in 128, 256 = 128              "rows of C per block"
//@ param   BN         int in 64, 128, 192, 256 = 256    "columns of C per block"
//@ param   STAGES     int in 2..6 = 4                    "tiles of A and B under way"
//@ param   CLUSTER    int in 1, 2 = 1                    "blocks that share the tiles of B"
//@ param   GROUP      int in 1, 2, 4, 8, 16, 32 = 8      "rows of tiles of C, counted in clusters, that are worked through column by column"
//@ param   TMA_STORE  bool = true                        "C leaves through shared memory and TMA; else straight from registers"
//@ require BM * BN <= 128 * 256   "a thread has registers for 128 x 256 results per block"
//@ size    m = 4096 test 131  "rows of A and C"
//@ size    n = 4096 test 264 multiple 8  "columns of B and C"
//@ size    k = 4096 test 136 multiple 8  "columns of A and rows of B"
//@ input   a [m, k]
//@ input   b [k, n]
//@ output  c [m, n] by gemm_reference exact
//@ tensormap a_map = a [m, k] box [BM, 64] swizzle 128
//@ tensormap b_map = b [k, n] box [64 / CLUSTER, 64] swizzle 128
//@ tensormap c_map = c [m, n] box [16, 32] swizzle 128
//@ flops   2 * m * n * k
//@ naive   gemm_naive
//@ block   384
//@ cluster CLUSTER
//@ grid    min(ceil_div(m, BM * CLUSTER) * ceil_div(n, BN), max(device.multiprocessors / CLUSTER, 1)) * CLUSTER
//@ shared  STAGES * (BM + BN) * 128 + (TMA_STORE ? 32768 : 0) + STAGES * 16
//@ backend cuda, host
//@ arch    sm_90a
#include "kiln/tma.h"
#include "kiln/wgmma.h"

using kiln::i64;

constexpr int kDepth = 64;  // of k per tile: what a row of 128 bytes holds
constexpr int kRowBytes = 128;
constexpr int kTileBytesA = BM * kRowBytes;
constexpr int kTileBytesB = BN * kRowBytes;
constexpr int kSliceBytesB = kDepth * kRowBytes;  // 64 columns of a tile of B
constexpr int kPartRows = kDepth / CLUSTER;       // of a tile of B that one block loads
constexpr int kStoreRows = 16;                    // what a warp stores at a time
constexpr int kStoreColumns = 32;
constexpr int kStoreBytes = kStoreRows * kRowBytes;
constexpr int kConsumers = 2;                // warpgroups
constexpr int kSums = BM / kConsumers / 64;  // of 64 rows, per warpgroup
constexpr unsigned kClusterSize = kiln::kHasClusters ? CLUSTER : 1;
constexpr unsigned kEveryBlock = (1u << kClusterSize) - 1;

struct Shared {
    unsigned char* tiles;
    unsigned char* stores;
    kiln::Barrier* full;
    kiln::Barrier* empty;

    __device__ __forceinline__ unsigned char* a(unsigned stage) const {
        return tiles + stage * (kTileBytesA + kTileBytesB);
    }
    __device__ __forceinline__ unsigned char* b(unsigned stage) const { return a(stage) + kTileBytesA; }
};

// Where in the ring a thread is; parity tells even rounds from odd ones.
struct Turn {
    unsigned stage = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void advance() {
        if (++stage < STAGES) return;
        stage = 0;
        parity ^= 1u;
    }
};

// The tiles of C that this block computes; all blocks of a cluster take the same steps.
class Tiles {
  public:
    // The tile's first; past the last of C in the last blocks of a cluster. What passes 2^31 then is
    // negative as an int, which is outside of C as well.
    unsigned row = 0;
    unsigned column = 0;

    __device__ __forceinline__ Tiles(int m, int n)
        : down_((static_cast<unsigned>(m) + BM * kClusterSize - 1) / (BM * kClusterSize)),
          across_((static_cast<unsigned>(n) + BN - 1) / BN),
          next_(blockIdx.x / kClusterSize) {}

    __device__ __forceinline__ bool advance() {
        if (next_ >= down_ * across_) return false;
        const unsigned first = next_ / (GROUP * across_) * GROUP;
        const unsigned height = kiln::min(down_ - first, static_cast<unsigned>(GROUP));
        const unsigned place = next_ % (GROUP * across_);
        row = ((first + place % height) * kClusterSize + kiln::cluster_rank()) * BM;
        column = place / height * BN;
        next_ += gridDim.x / kClusterSize;
        return true;
    }

  private:
    unsigned down_, across_, next_;
};

// By one thread.
__device__ __forceinline__ void produce(const Shared& shared, Tiles tiles, unsigned steps,
                                        const kiln::TensorMap& a_map, const kiln::TensorMap& b_map) {
    Turn turn;
    while (tiles.advance()) {
        for (unsigned step = 0; step < steps; ++step) {
            kiln::Barrier* const full = &shared.full[turn.stage];
            kiln::barrier_wait(&shared.empty[turn.stage], turn.parity ^ 1u);
            kiln::barrier_expect(full, kTileBytesA + kTileBytesB);
            kiln::tma_load(shared.a(turn.stage), a_map, full, static_cast<int>(tiles.row),
                           static_cast<int>(step * kDepth));
#pragma unroll
            for (unsigned part = kiln::cluster_rank(); part < CLUSTER; part += kClusterSize) {
#pragma unroll
                for (int column = 0; column < BN; column += 64) {
                    unsigned char* const to =
                        shared.b(turn.stage) + column * kRowBytes + part * kPartRows * kRowBytes;
                    const int from_row = static_cast<int>(step * kDepth + part * kPartRows);
                    const int from_column = static_cast<int>(tiles.column + column);
                    if constexpr (kClusterSize > 1)
                        kiln::tma_load_multicast(to, b_map, full, kEveryBlock, from_row, from_column);
                    else
                        kiln::tma_load(to, b_map, full, from_row, from_column);
                }
            }
            turn.advance();
        }
    }
}

using Sums = kiln::WgmmaSums<BN>;

// Each element's place follows from wgmma_row and wgmma_column: a warp has 16 rows, and a thread two of them,
// 8 apart, with two neighbouring columns out of each 8.
__device__ __forceinline__ void store_directly(const Sums& sums, float* c, int m, int n, unsigned first_row,
                                               unsigned first_column, unsigned lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const i64 row = static_cast<i64>(first_row) + lane / 4 + half * 8;
        if (row >= m) continue;
        float* const c_row = c + row * n;
#pragma unroll
        for (int i = 0; i < BN / 2; i += 4) {
            const i64 column = static_cast<i64>(first_column) + i * 2 + lane % 4 * 2;
            const kiln::Vec<float, 2> pair = {{sums.values[i + half * 2], sums.values[i + half * 2 + 1]}};
            if (column < n) kiln::store(c_row + column, pair);
        }
    }
}

// Through two boxes of 16 x 32 in shared memory, `staging`, while the accelerator still reads the other one.
__device__ __forceinline__ void store_by_tma(const Sums& sums, const kiln::TensorMap& c_map,
                                             kiln::TmaStores& stores, unsigned char* staging, unsigned& box,
                                             unsigned first_row, unsigned first_column, unsigned lane) {
    const unsigned row = lane / 4;
    // Lanes of odd rows write the third and fourth 8 columns when others write the first and second: with
    // the swizzle this makes the accesses of half a warp fall into different banks.
    const bool is_odd = row % 2 != 0;
#pragma unroll
    for (int part = 0; part < BN / kStoreColumns; ++part) {
        unsigned char* const to = staging + box * kStoreBytes;
        if (lane == 0) stores.wait_read<1>();
        __syncwarp();
#pragma unroll
        for (int eight = 0; eight < 4; ++eight) {
            const int i = (part * 4 + eight) * 4, swapped = (part * 4 + (eight ^ 2)) * 4;
            const unsigned byte = (is_odd ? eight ^ 2 : eight) * 32 + lane % 4 * 8;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int j = half * 2;
                const kiln::Vec<float, 2> pair = {
                    {is_odd ? sums.values[swapped + j] : sums.values[i + j],
                     is_odd ? sums.values[swapped + j + 1] : sums.values[i + j + 1]}};
                *reinterpret_cast<kiln::Vec<float, 2>*>(to + kiln::swizzled(row + half * 8, byte)) = pair;
            }
        }
        kiln::fence_async_proxy();
        __syncwarp();
        if (lane == 0) {
            stores.store(c_map, to, static_cast<int>(first_row),
                         static_cast<int>(first_column + part * kStoreColumns));
            stores.commit();
        }
        box ^= 1u;
    }
}

// By the warpgroup `consumer`.
__device__ __forceinline__ void consume(const Shared& shared, Tiles tiles, unsigned steps, unsigned consumer,
                                        float* c, int m, int n, const kiln::TensorMap& c_map) {
    const unsigned warp = threadIdx.x / 32 % 4;
    const unsigned lane = threadIdx.x % 32;
    // What this warp has read of a stage may be overwritten, here and, as tiles of B go to all of them,
    // from any block of the cluster.
    const auto release = [&](unsigned stage) {
        if (lane < kClusterSize) {
            if constexpr (kClusterSize > 1)
                kiln::barrier_arrive_at(&shared.empty[stage], lane);
            else
                kiln::barrier_arrive(&shared.empty[stage]);
        }
    };
    unsigned char* const staging = shared.stores + (consumer * 4 + warp) * 2 * kStoreBytes;
    kiln::TmaStores stores;
    unsigned box = 0;
    Turn turn;
    Sums sums[kSums];
    while (tiles.advance()) {
        unsigned last_stage = 0;
        for (unsigned step = 0; step < steps; ++step) {
            kiln::barrier_wait(&shared.full[turn.stage], turn.parity);
            const kiln::u64 a = kiln::wgmma_k_major(shared.a(turn.stage)) +
                                kiln::wgmma_advance(consumer * kSums * 64 * kRowBytes);
            const kiln::u64 b = kiln::wgmma_mn_major(shared.b(turn.stage), kSliceBytesB);
            kiln::wgmma_fence();
#pragma unroll
            for (int depth = 0; depth < kDepth; depth += 16) {
#pragma unroll
                for (int i = 0; i < kSums; ++i)
                    kiln::wgmma<T, false, true>(
                        sums[i], a + kiln::wgmma_advance(i * 64 * kRowBytes + depth * sizeof(T)),
                        b + kiln::wgmma_advance(depth * kRowBytes), depth != 0 || step != 0);
            }
            kiln::wgmma_commit();
            // The next stage is multiplied while this group goes on; only the one before has to end.
            kiln::wgmma_wait<1>(sums);
            if (step != 0) release(last_stage);
            last_stage = turn.stage;
            turn.advance();
        }
        kiln::wgmma_wait<0>(sums);
        release(last_stage);
#pragma unroll
        for (int i = 0; i < kSums; ++i) {
            const unsigned row = tiles.row + ((consumer * kSums + i) * 4 + warp) * 16;
            if constexpr (TMA_STORE)
                store_by_tma(sums[i], c_map, stores, staging, box, row, tiles.column, lane);
            else
                store_directly(sums[i], c, m, n, row, tiles.column, lane);
        }
    }
    if (TMA_STORE && lane == 0) stores.wait_read<0>();
}

extern "C" __global__ __launch_bounds__(384, 1) void gemm_wgmma(
    int m, int n, int k, const T* a, const T* b, float* c, const __grid_constant__ kiln::TensorMap a_map,
    const __grid_constant__ kiln::TensorMap b_map, const __grid_constant__ kiln::TensorMap c_map) {
    Shared shared;
    shared.tiles = kiln::dynamic_shared<unsigned char>();
    shared.stores = shared.tiles + STAGES * (kTileBytesA + kTileBytesB);
    shared.full =
        reinterpret_cast<kiln::Barrier*>(shared.stores + (TMA_STORE ? kConsumers * 8 * kStoreBytes : 0));
    shared.empty = shared.full + STAGES;
    static_cast<void>(a);
    static_cast<void>(b);

    if (threadIdx.x == 0) {
        kiln::tma_prefetch(a_map);
        kiln::tma_prefetch(b_map);
        if (TMA_STORE) kiln::tma_prefetch(c_map);
        for (int stage = 0; stage < STAGES; ++stage) {
            kiln::barrier_init(&shared.full[stage], 1);
            kiln::barrier_init(&shared.empty[stage], kConsumers * 4 * kClusterSize);
        }
        kiln::barrier_init_fence();
    }
    if constexpr (kClusterSize > 1)
        kiln::cluster_sync();
    else
        __syncthreads();

    const Tiles tiles(m, n);
    const unsigned steps = (static_cast<unsigned>(k) + kDepth - 1) / kDepth;
    // The same for all lanes, which the compiler can't tell from threadIdx.
    const unsigned group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    // 384 threads begin with 168 registers each: 128 * 40 + 256 * 232 are as many.
    if (group == 0) {
        kiln::release_registers<40>();
        if (threadIdx.x < 32 && kiln::elect_one()) produce(shared, tiles, steps, a_map, b_map);
    } else {
        kiln::claim_registers<232>();
        consume(shared, tiles, steps, group - 1, c, m, n, c_map);
    }
    // Until all have ended, blocks of the cluster arrive at each other's barriers.
    if constexpr (kClusterSize > 1) kiln::cluster_sync();
}
