// attention_wgmma: fused softmax(Q K^T / sqrt(HEAD_DIM)) V on Hopper's tensor cores
//
// Layouts, causal alignment, grouped heads and lse: as in attention. Weights are rounded to T before they meet
// V. TMA wants addresses of q, k and v that are multiples of 16 bytes.
//
// How a tile of queries is computed: kiln/attention_wgmma.h. With PERSISTENT, a block per multiprocessor computes one
// tile of queries after the other, whichever is next when it asks, and the next tile's loads start before the results
// of this one are stored. The order in which a row is summed is fixed.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  attention_wgmma
//@ param   T          type in half, bfloat16 = half    "element type of q, k, v and o; sums are float"
//@ param   HEAD_DIM   int in 64, 96, 128, 192, 256 = 128       "elements of a query or key"
//@ param   VALUE_DIM  int in 64, 96, 128, 192, 256 = HEAD_DIM  "elements of a value"
//@ param   CAUSAL     bool = false                     "queries see no keys behind them"
//@ param   BM         int in 128, 192 = 128            "queries per block, 64 per warpgroup"
//@ param   BN         int in 64, 96, 128, 144, 160, 176, 192 = VALUE_DIM == 256 ? 64 : VALUE_DIM == 192 ? 96 : 128  "keys per tile"
//@ param   STAGES     int in 2..4 = 2                  "stages of the pipeline of keys, and of that of values"
//@ param   PINGPONG   bool = true                      "warpgroups issue wgmma alternately"
//@ param   PERSISTENT bool = false                     "persistent blocks, one per multiprocessor"
//@ let     CONSUMERS   = BM / 64                       "warpgroups that multiply"
//@ let     THREADS     = 128 * (CONSUMERS + 1)
//@ let     SLICES_K    = ceil_div(HEAD_DIM, 64)    "of 64 columns of queries and keys; TMA fills what is not there with zeros"
//@ let     SLICES_V    = ceil_div(VALUE_DIM, 64)   "of values"
//@ let     QUERY_BYTES = BM * SLICES_K * 128       "the block's queries"
//@ let     KEY_BYTES   = BN * SLICES_K * 128       "a tile of keys"
//@ let     VALUE_BYTES = BN * SLICES_V * 128       "a tile of values"
//@ let     BARRIERS    = 2 + 4 * STAGES                "full and empty: of the queries, and of each stage of keys and of values"
//@ require VALUE_DIM == HEAD_DIM || (HEAD_DIM == 192 && VALUE_DIM == 128)  "values have as many elements as keys, or 128 where keys have 192; choose VALUE_DIM = HEAD_DIM"
//@ require BN * 3 / 4 + VALUE_DIM / 2 <= (BM == 128 ? 208 : 128)  "a thread has registers for 64 queries' scores, weights and results only with fewer keys per tile"
//@ size    batch    = 4    test 2    "sequences"
//@ size    kv_heads = 16   test 1    "heads of k and v"
//@ size    group    = 1    test 2    "heads of q per head of k and v"
//@ size    queries  = 4096 test 131  "queries per sequence and head"
//@ size    keys     = 4096 test 150  "keys per sequence and head"
//@ input   q [batch, kv_heads * group, queries, HEAD_DIM]
//@ input   k [batch, kv_heads, keys, HEAD_DIM]
//@ input   v [batch, kv_heads, keys, VALUE_DIM]
//@ output  o [batch, kv_heads * group, queries, VALUE_DIM] align 16 by attention_mma_reference
//@ output  lse [batch, kv_heads * group, queries] by attention_lse_reference "ln of the sum of e^score"
//@ scratch counters [2] = 0
//@ tensormap q_map = q [batch * kv_heads * group, queries, HEAD_DIM] box [1, BM, 64] swizzle 128
//@ tensormap k_map = k [batch * kv_heads, keys, HEAD_DIM] box [1, BN, 64] swizzle 128
//@ tensormap v_map = v [batch * kv_heads, keys, VALUE_DIM] box [1, BN, 64] swizzle 128
//@ flops   2 * batch * kv_heads * group * (HEAD_DIM + VALUE_DIM) * (CAUSAL ? min(queries, keys) * (min(queries, keys) + 1) / 2 + min(queries, keys) * (keys - min(queries, keys)) : queries * keys)
//@ naive   attention_naive
//@ backend cuda, host
//@ arch    sm_90a
//@ block   THREADS
//@ grid    PERSISTENT ? min(batch * kv_heads * group * ceil_div(queries, BM), max(device.multiprocessors, 1)) : batch * kv_heads * group * ceil_div(queries, BM)
//@ shared  QUERY_BYTES + STAGES * (KEY_BYTES + VALUE_BYTES) + (BARRIERS + 1) * 8
//@ model   engine wgmma
//@ model   edge BM of queries
//@ model   step BN of keys
//@ model   search [BM, BN, STAGES], [BN, STAGES, PINGPONG]
#include "kiln/attention_wgmma.h"

using kiln::i64;

using Attention = kiln::WgmmaAttention<T, HEAD_DIM, VALUE_DIM, BM, BN, STAGES, PINGPONG>;
static_assert(THREADS == Attention::kThreads && QUERY_BYTES == Attention::kQueryBytes);

// A tile of queries. The last queries of a head see the most keys and go first.
struct Work {
    int queries, keys;
    int head = 0;        // of q, over all sequences
    int first = 0;       // query
    int tiles_seen = 0;  // of keys

    __device__ __forceinline__ Work(int queries_, int keys_) : queries(queries_), keys(keys_) {}

    __device__ __forceinline__ void take(unsigned number) {
        const unsigned tiles = (static_cast<unsigned>(queries) + BM - 1) / BM;
        head = static_cast<int>(number / tiles);
        first = static_cast<int>(tiles - 1 - number % tiles) * BM;
        tiles_seen = (visible((queries - first < BM ? queries : first + BM) - 1) + BN - 1) / BN;
    }
    __device__ __forceinline__ int visible(int query) const {
        if (!CAUSAL) return keys;
        return kiln::causal_keys(query, queries, keys);
    }
    __device__ __forceinline__ i64 o_row(int query) const { return static_cast<i64>(head) * queries + query; }
    __device__ __forceinline__ i64 lse_at(int query) const { return o_row(query); }
};

// By one thread.
__device__ __forceinline__ void produce(const Attention::Shared& shared, Work work, unsigned count,
                                        unsigned* counters, int group, const kiln::TensorMap& q_map,
                                        const kiln::TensorMap& k_map, const kiln::TensorMap& v_map) {
    Attention::Producer producer = {shared, {}, {}};
    unsigned phase_q = 1;
    unsigned number = blockIdx.x;
    while (number < count) {
        // Asked for early, since the answer takes a while.
        const unsigned next = PERSISTENT ? gridDim.x + atomicAdd(&counters[0], 1u) : count;
        work.take(number);
        kiln::barrier_wait(shared.q_empty, phase_q);
        phase_q ^= 1u;
        if (PERSISTENT) *shared.number = number;
        number = next;
        if (work.tiles_seen == 0) {
            kiln::barrier_arrive(shared.q_full);
            continue;
        }
        const auto from = [](const kiln::TensorMap& map, int head) {
            return [&map, head](void* to, kiln::Barrier* full, int row, int column) {
                kiln::tma_load(to, map, full, head, row, column);
            };
        };
        const int kv_head = work.head / group;
        producer.load(work.tiles_seen, work.first, from(q_map, work.head), from(k_map, kv_head), from(v_map, kv_head));
    }
    if (!PERSISTENT) return;
    kiln::barrier_wait(shared.q_empty, phase_q);
    *shared.number = count;
    kiln::barrier_arrive(shared.q_full);
    // The last block resets the counters for the next launch.
    __threadfence();
    if (atomicAdd(&counters[1], 1u) == gridDim.x - 1) counters[0] = counters[1] = 0;
}

// By consumer number `consumer_number`.
__device__ __forceinline__ void consume(const Attention::Shared& shared, Work work, unsigned consumer_number,
                                        unsigned count, T* o, float* lse) {
    Attention::Consumer consumer(shared, consumer_number);
    unsigned phase_q = 0;
    while (true) {
        kiln::barrier_wait(shared.q_full, phase_q);
        phase_q ^= 1u;
        // The lane that reads the tile's number is the one that arrives on q_empty, so that its own program order
        // puts the read before the next write.
        const unsigned number =
            PERSISTENT ? __shfl_sync(0xffffffffu, threadIdx.x % 32 == 0 ? *shared.number : 0u, 0) : blockIdx.x;
        if (number >= count) break;
        work.take(number);
        consumer.attend(work, o, lse, [](unsigned char*) {});
        if (!PERSISTENT) break;
    }
    consumer.end();
}

extern "C" __global__ __launch_bounds__(THREADS, 1) void attention_wgmma(
    int batch, int kv_heads, int group, int queries, int keys, const T* __restrict__ q,
    const T* __restrict__ k, const T* __restrict__ v, T* __restrict__ o, float* __restrict__ lse,
    unsigned* __restrict__ counters, const __grid_constant__ kiln::TensorMap q_map,
    const __grid_constant__ kiln::TensorMap k_map, const __grid_constant__ kiln::TensorMap v_map) {
    const Attention::Shared shared = Attention::Shared::of(kiln::dynamic_shared<unsigned char>());
    if (threadIdx.x == 0) shared.init(q_map, k_map, v_map);
    __syncthreads();

    const Work work(queries, keys);
    const unsigned count =
        static_cast<unsigned>(batch * kv_heads * group) * ((static_cast<unsigned>(queries) + BM - 1) / BM);
    // Equal in all lanes of a warp, which the compiler cannot know of threadIdx.
    const unsigned role = __shfl_sync(0xffffffffu, threadIdx.x / Attention::kGroupThreads, 0);
    if (role == 0) {
        kiln::setmaxnreg_dec<Attention::kProducerRegisters>();
        if (threadIdx.x < 32 && kiln::elect_one())
            produce(shared, work, count, counters, group, q_map, k_map, v_map);
    } else {
        kiln::setmaxnreg_inc<Attention::kConsumerRegisters>();
        consume(shared, work, role - 1, count, o, lse);
    }
}
