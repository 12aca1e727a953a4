// attention_packed_wgmma: attention of packed sequences on Hopper's tensor cores
//
// Layouts, causal alignment, grouped heads and lse: as in attention_packed_naive. Weights are rounded to T before they meet
// V. TMA wants addresses of q, k and v that are multiples of 16 bytes.
//
// A block has a tile of queries of one sequence and head, and computes it as kiln/attention_wgmma.h says. The last queries
// of a sequence see the most keys and go first. A tile of keys may reach into the next sequence, whose scores are masked,
// and whose values are set to zero in shared memory. The order in which a row is summed is fixed, and does not depend on
// the other sequences.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  attention_packed_wgmma
//@ param   T          type in half, bfloat16 = half    "element type of q, k, v and o; sums are float"
//@ param   HEAD_DIM   int in 64, 96, 128, 192, 256 = 128       "elements of a query or key"
//@ param   VALUE_DIM  int in 64, 96, 128, 192, 256 = HEAD_DIM  "elements of a value"
//@ param   CAUSAL     bool = false                     "queries see no keys behind them"
//@ param   BM         int in 64, 128, 192 = 128        "queries per block, 64 per warpgroup"
//@ param   BN         int in 64, 96, 128, 144, 160, 176, 192 = VALUE_DIM == 256 || (BM == 64 && HEAD_DIM > 64) ? 64 : VALUE_DIM == 192 ? 96 : 128  "keys per tile"
//@ param   STAGES     int in 2..4 = 2                  "stages of the pipeline of keys, and of that of values"
//@ param   PINGPONG   bool = BM > 64                   "warpgroups issue wgmma alternately"
//@ let     THREADS     = 128 * (BM / 64 + 1)           "a warpgroup that loads, and those that multiply"
//@ let     QUERY_BYTES = BM * ceil_div(HEAD_DIM, 64) * 128   "the block's queries"
//@ let     KEY_BYTES   = BN * ceil_div(HEAD_DIM, 64) * 128   "a tile of keys"
//@ let     VALUE_BYTES = BN * ceil_div(VALUE_DIM, 64) * 128  "a tile of values"
//@ require VALUE_DIM == HEAD_DIM || (HEAD_DIM == 192 && VALUE_DIM == 128)  "values have as many elements as keys, or 128 where keys have 192; choose VALUE_DIM = HEAD_DIM"
//@ require BN * 3 / 4 + VALUE_DIM / 2 <= (BM == 192 ? 128 : 208)  "a thread has registers for 64 queries' scores, weights and results only with fewer keys per tile"
//@ require BM > 64 || !PINGPONG                      "a single warpgroup has none to alternate with; choose PINGPONG = false"
//@ require BM > 64 || QUERY_BYTES + STAGES * (KEY_BYTES + VALUE_BYTES) < 113 * 1024  "64 queries are for two blocks on a multiprocessor, whose shared memory holds both; choose fewer keys per tile, or BM = 128"
//@ require BM > 64 || VALUE_DIM <= 128               "a thread of two blocks at once has registers for 128 values; choose BM = 128"
//@ size    batch         = 8     test 5    "sequences"
//@ size    kv_heads      = 16    test 1    "heads of k and v"
//@ size    group         = 1     test 2    "heads of q per head of k and v"
//@ size    total_queries = 16384 test 519  "queries of all sequences"
//@ size    total_keys    = 16384 test 601  "keys of all sequences"
//@ input   q [total_queries, kv_heads * group, HEAD_DIM]
//@ input   k [total_keys, kv_heads, HEAD_DIM]
//@ input   v [total_keys, kv_heads, VALUE_DIM]
//@ input   query_offsets [batch + 1] offsets to total_queries "where each sequence's queries begin"
//@ input   key_offsets [batch + 1] offsets to total_keys "where each sequence's keys begin"
//@ output  o [total_queries, kv_heads * group, VALUE_DIM] align 16 by attention_packed_reference
//@ output  lse [kv_heads * group, total_queries] by attention_packed_lse_reference "ln of the sum of e^score"
//@ tensormap q_map = q [total_queries, kv_heads * group, HEAD_DIM] box [BM, 1, 64] swizzle 128
//@ tensormap k_map = k [total_keys, kv_heads, HEAD_DIM] box [BN, 1, 64] swizzle 128
//@ tensormap v_map = v [total_keys, kv_heads, VALUE_DIM] box [BN, 1, 64] swizzle 128
//@ flops   2 * batch * kv_heads * group * (HEAD_DIM + VALUE_DIM) * (CAUSAL ? min(ceil_div(total_queries, max(batch, 1)), ceil_div(total_keys, max(batch, 1))) * (min(ceil_div(total_queries, max(batch, 1)), ceil_div(total_keys, max(batch, 1))) + 1) / 2 + min(ceil_div(total_queries, max(batch, 1)), ceil_div(total_keys, max(batch, 1))) * (ceil_div(total_keys, max(batch, 1)) - min(ceil_div(total_queries, max(batch, 1)), ceil_div(total_keys, max(batch, 1)))) : ceil_div(total_queries, max(batch, 1)) * ceil_div(total_keys, max(batch, 1))) * (batch > 1 ? 5 : 4) / 4
//@ naive   attention_packed_naive
//@ backend cuda, host
//@ arch    sm_90a
//@ block   THREADS
//@ grid    (total_queries / BM + batch) * kv_heads * group
//@ shared  QUERY_BYTES + STAGES * (KEY_BYTES + VALUE_BYTES) + (3 + 4 * STAGES) * 8
//@ model   engine wgmma
//@ model   edge BM of ceil_div(total_queries, max(batch, 1))
//@ model   step BN of ceil_div(total_keys, max(batch, 1))
//@ model   blocks BM == 64 ? 2 : 1
//@ model   search [BM, BN, STAGES, PINGPONG]
#include "kiln/attention_wgmma.h"
#include "kiln/packed.h"

using kiln::i64;

using Attention = kiln::WgmmaAttention<T, HEAD_DIM, VALUE_DIM, BM, BN, STAGES, PINGPONG>;
static_assert(THREADS == Attention::kThreads && QUERY_BYTES == Attention::kQueryBytes);

// A tile of queries.
struct Work {
    int heads, total_queries;
    int head;
    int first_query, first_key;  // of the sequence, among those of all
    int queries, keys;           // of the sequence
    int first;                   // query, in the sequence
    int tiles_seen;              // of keys

    __device__ __forceinline__ int visible(int query) const {
        if (!CAUSAL) return keys;
        return kiln::causal_keys(query, queries, keys);
    }
    __device__ __forceinline__ i64 o_row(int query) const {
        return static_cast<i64>(first_query + query) * heads + head;
    }
    __device__ __forceinline__ i64 lse_at(int query) const {
        return static_cast<i64>(head) * total_queries + first_query + query;
    }
};

extern "C" __global__ __launch_bounds__(THREADS, BM == 64 ? 2 : 1) void attention_packed_wgmma(
    int batch, int kv_heads, int group, int total_queries, int total_keys, const T* __restrict__ q, const T* __restrict__ k,
    const T* __restrict__ v, const int* __restrict__ query_offsets, const int* __restrict__ key_offsets,
    T* __restrict__ o, float* __restrict__ lse, const __grid_constant__ kiln::TensorMap q_map,
    const __grid_constant__ kiln::TensorMap k_map, const __grid_constant__ kiln::TensorMap v_map) {
    const auto tile = kiln::PackedTile<BM>::of(query_offsets, batch, kv_heads * group, blockIdx.x);
    Work work;
    work.heads = kv_heads * group;
    work.total_queries = total_queries;
    work.head = tile.head;
    work.first_query = query_offsets[tile.sequence];
    work.first_key = key_offsets[tile.sequence];
    work.queries = query_offsets[tile.sequence + 1] - work.first_query;
    work.keys = key_offsets[tile.sequence + 1] - work.first_key;
    work.first = (tile.tiles - 1 - tile.index) * BM;
    if (work.first >= work.queries) return;
    work.tiles_seen =
        (work.visible((work.queries - work.first < BM ? work.queries : work.first + BM) - 1) + BN - 1) / BN;

    const Attention::Shared shared = Attention::Shared::of(kiln::dynamic_shared<unsigned char>());
    if (threadIdx.x == 0) shared.init(q_map, k_map, v_map);
    __syncthreads();

    // Equal in all lanes of a warp, which the compiler cannot know of threadIdx.
    const unsigned role = __shfl_sync(0xffffffffu, threadIdx.x / Attention::kGroupThreads, 0);
    if (role == 0) {
        kiln::setmaxnreg_dec<Attention::kProducerRegisters>();
        if (work.tiles_seen > 0 && threadIdx.x < 32 && kiln::elect_one()) {
            const auto from = [](const kiln::TensorMap& map, int first, int head) {
                return [&map, first, head](void* to, kiln::Barrier* full, int row, int column) {
                    kiln::tma_load(to, map, full, first + row, head, column);
                };
            };
            const int kv_head = work.head / group;
            Attention::Producer producer = {shared, {}, {}};
            producer.load(work.tiles_seen, work.first, from(q_map, work.first_query, work.head),
                          from(k_map, work.first_key, kv_head), from(v_map, work.first_key, kv_head));
        }
    } else {
        kiln::setmaxnreg_inc<Attention::kConsumerRegisters>();
        Attention::Consumer consumer(shared, role - 1);
        if (work.tiles_seen > 0) kiln::barrier_wait(shared.q_full, 0);
        consumer.attend(work, o, lse, [&](unsigned char* values) {
            const int left = work.keys - (work.tiles_seen - 1) * BN;
            if (left < BN) Attention::Consumer::clear_values(values, left);
        });
        consumer.end();
    }
}
